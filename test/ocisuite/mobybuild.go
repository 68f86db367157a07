package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/engine/build"
)

const (
	// mobyTests is the package of the engine's own tests, below its module.
	mobyTests = "integration/container"
	// mobyProgram is the compiled package in the cache entry. The package's files for tests are beside it.
	mobyProgram = "container.test"
	// mobyFiles is the directory of these files. The tests look for it in their working directory.
	mobyFiles = "testdata"
)

// buildMoby returns the directory of the engine's own tests of containers. It is kept in the cache. The tests compile
// in a copy of their module, so they get the dependencies of the engine's release.
func buildMoby(ctx context.Context) (string, error) {
	key := cache.Key("moby-tests", build.MobyVersion, mobyTests, runtime.GOARCH, runtime.Version())
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		module, err := gomod.Download(ctx, dir, build.Moby+"@"+build.MobyVersion)
		if err != nil {
			return err
		}
		tests := os.DirFS(filepath.Join(module.Dir, mobyTests, mobyFiles))
		if err := os.CopyFS(filepath.Join(dir, mobyFiles), tests); err != nil {
			return err
		}
		return gomod.InCopy(module.Dir, func(work string) error {
			_, err := gomod.Command(ctx, work, append(gomod.Native(), "CGO_ENABLED=0"), "test", "-c", "-vet=off",
				"-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, mobyProgram),
				"./"+mobyTests)
			return err
		})
	})
}
