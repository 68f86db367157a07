package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

const (
	runtimeTools = "github.com/opencontainers/runtime-tools"
	// insideProgram is the program that checks a container from inside.
	insideProgram = "runtimetest"
)

// buildSuite returns the directory of the validation programs and of the files that they look for in their working
// directory. It is kept in the cache; building takes half a minute and needs the Go module proxy.
func buildSuite(ctx context.Context) (string, error) {
	root, err := gomod.Root(ctx)
	if err != nil {
		return "", err
	}
	pinned := filepath.Join(root, "test", "ocisuite", "tools")
	versions, err := os.ReadFile(filepath.Join(pinned, "go.mod"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(versions)
	key := cache.Key("ocisuite", hex.EncodeToString(sum[:6]), runtime.GOARCH, runtime.Version())
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		_, err := gomod.Command(ctx, pinned, append(gomod.Native(), "CGO_ENABLED=0"), "build", "-trimpath", "-ldflags",
			"-s -w", "-o", dir+"/", runtimeTools+"/validation/...", runtimeTools+"/cmd/"+insideProgram)
		if err != nil {
			return err
		}
		module, err := gomod.Download(ctx, pinned, runtimeTools)
		if err != nil {
			return err
		}
		files := "rootfs-" + runtime.GOARCH + ".tar.gz"
		content, err := os.ReadFile(filepath.Join(module.Dir, files))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, files), content, 0o644)
	})
}
