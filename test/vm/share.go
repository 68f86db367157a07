package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/images"
)

// shellImage is an image with a shell, which the share has in shell.tar.
const shellImage = "criadapter.local/shell:1"

// fillShare makes what the machine sees at /mnt: a release of the tree in a directory of its version, and what a node
// has beside it.
func fillShare(ctx context.Context, share string) error {
	if err := debian.Release(ctx, ".", version, runtime.GOARCH, filepath.Join(share, version)); err != nil {
		return err
	}
	if err := debian.FillShare(ctx, share); err != nil {
		return err
	}
	if err := fillEngine(ctx, filepath.Join(share, "engine")); err != nil {
		return err
	}
	catalog, err := catalog(ctx)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(shellImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(share, "shell.tar"), tag, catalog["test/busybox:latest"])
}

// fillEngine puts the programs and the daemon.json of another engine than Debian's into the share, if ENGINE names one.
func fillEngine(ctx context.Context, dir string) error {
	variant, err := engine.Named(os.Getenv("ENGINE"))
	if err != nil || variant.Name == engine.Installed {
		return err
	}
	dockerd, err := variant.Program(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(dockerd))); err != nil {
		return err
	}
	return program.WriteJSON(filepath.Join(dir, "daemon.json"), variant.Config())
}

// catalog are all test images.
func catalog(ctx context.Context) (map[string]v1.Image, error) {
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	return images.Catalog(ctx, dir)
}
