// Package peers builds and runs the CRI servers that criadapter is compared with: cri-dockerd and containerd.
// cri-dockerd is built from its module and kept in the cache, see package test/rig/cache. Only the first build takes
// minutes and needs the Go module proxy. This repository has no source of these servers.
package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// The last version of cri-dockerd that works with Docker 20.10, and the checksum of its module.
const (
	criDockerdModule  = "github.com/Mirantis/cri-dockerd"
	criDockerdVersion = "v0.4.3"
	criDockerdSum     = "h1:C67s3We+J8DUVZeAw3jYeDgSQi7kRvLg0XeiLCj+8MY="
)

// CRIDockerd returns the path of cri-dockerd, built without changes from its module, with the versions and replacements
// of its own go.mod. The first call needs the Go module proxy.
func CRIDockerd(ctx context.Context) (string, error) {
	dir, err := cache.Fill(ctx, criDockerdKey(), buildCRIDockerd)
	return filepath.Join(dir, "cri-dockerd"), err
}

// HasCRIDockerd reports whether the cache has cri-dockerd, so that CRIDockerd builds nothing.
func HasCRIDockerd() (bool, error) { return cache.Has(criDockerdKey()) }

func criDockerdKey() string {
	return cache.Key("cri-dockerd", criDockerdModule+"@"+criDockerdVersion, runtime.GOOS, runtime.GOARCH,
		runtime.Version(), "static", "stripped")
}

func buildCRIDockerd(ctx context.Context, dir string) error {
	source, err := download(ctx, criDockerdModule+"@"+criDockerdVersion, criDockerdSum)
	if err != nil {
		return err
	}
	// Go applies replacements only in the main module.
	return gomod.InCopy(source, func(work string) error {
		version := "-X " + criDockerdModule + "/cmd/version.Version=" + strings.TrimPrefix(criDockerdVersion, "v")
		_, err := gomod.Command(ctx, work, []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w "+version, "-o", filepath.Join(dir, "cri-dockerd"), ".")
		return err
	})
}

// download returns the directory of a module in the module cache. The module must have the checksum.
func download(ctx context.Context, module, sum string) (string, error) {
	downloaded, err := gomod.Download(ctx, os.TempDir(), module)
	if err != nil {
		return "", err
	}
	if downloaded.Sum != sum {
		return "", fmt.Errorf("module %s has the checksum %s, want %s", module, downloaded.Sum, sum)
	}
	return downloaded.Dir, nil
}
