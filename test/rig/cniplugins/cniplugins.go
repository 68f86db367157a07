// Package cniplugins builds the CNI plugins that pods on a development machine need, by module name, into the cache.
package cniplugins

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// The plugins are built in a module of their own, apart from the server's dependencies. Its files have other names
// here, because a directory with a go.mod could not be embedded.
var (
	//go:embed plugins.mod
	goMod []byte
	//go:embed plugins.sum
	goSum []byte
)

// version is the version of the plugins that plugins.mod requires.
const version = "github.com/containernetworking/plugins@v1.9.1"

// Build returns a directory with the plugins bridge, firewall, host-local, loopback and portmap. It builds them (about
// half a minute) when the cache has none; that needs the Go module proxy unless the module cache holds the modules. The
// architecture is a value of GOARCH.
func Build(ctx context.Context, architecture string) (string, error) {
	key := cache.Key("cni-plugins", version, runtime.GOOS, architecture, "static,stripped,firewall")
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error { return build(ctx, architecture, dir) })
}

// build compiles the plugins to dir.
func build(ctx context.Context, architecture, dir string) error {
	module, err := os.MkdirTemp("", "cni-plugins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	err = errors.Join(
		os.WriteFile(filepath.Join(module, "go.mod"), goMod, 0o644),
		os.WriteFile(filepath.Join(module, "go.sum"), goSum, 0o644))
	if err != nil {
		return err
	}
	environ := []string{"GOOS=" + runtime.GOOS, "GOARCH=" + architecture, "CGO_ENABLED=0"}
	_, err = gomod.Command(ctx, module, environ, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o",
		dir, "tool")
	return err
}
