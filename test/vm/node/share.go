package node

import (
	"context"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/vm/machine"
)

// ShellImage is an image with a shell, which the share has in shell.tar.
const ShellImage = "criadapter.local/shell:1"

// FillShare fills the directory that the machine sees at /mnt: a release of the tree in a directory of its version, and
// what a node has beside it.
func FillShare(ctx context.Context, kind machine.Kind, share string) error {
	if err := debian.Release(ctx, ".", version, kind.Architecture, filepath.Join(share, version)); err != nil {
		return err
	}
	if err := debian.FillShare(ctx, share, kind.Architecture); err != nil {
		return err
	}
	if err := debian.FillEngine(ctx, os.Getenv("ENGINE"), kind.Architecture, kind.Engine, share); err != nil {
		return err
	}
	catalog, err := Catalog(ctx, kind)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(ShellImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(share, "shell.tar"), tag, catalog["test/busybox:latest"])
}

// Catalog returns all test images for a machine.
func Catalog(ctx context.Context, kind machine.Kind) (map[string]v1.Image, error) {
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	image, err := kind.Image(ctx)
	if err != nil {
		return nil, err
	}
	return kind.ImageHost(image).Catalog(ctx, dir)
}
