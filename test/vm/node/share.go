package node

import (
	"context"
	"fmt"
	"maps"
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
	"github.com/criadapter/criadapter/test/rig/rigenv"
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
	if err := fillEngine(ctx, kind, share); err != nil {
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

// fillEngine puts the engine's daemon.json into the share, and the programs of another engine than Debian's, if ENGINE
// names one. With RUNTIME_MODE=oci, daemon.json names criadapter's OCI runtime, so that pods have no sandbox container.
func fillEngine(ctx context.Context, kind machine.Kind, share string) error {
	variant, err := engine.Named(os.Getenv("ENGINE"))
	if err != nil {
		return err
	}
	config := map[string]any{}
	maps.Copy(config, variant.Config())
	maps.Copy(config, kind.Engine)
	if os.Getenv("RUNTIME_MODE") == rigenv.ModeOCI {
		config["runtimes"] = map[string]any{"criadapter": map[string]any{"path": "/usr/bin/criadapter-oci"}}
	}
	if err := program.WriteJSON(filepath.Join(share, "daemon.json"), config); err != nil {
		return err
	}
	if variant.Name == engine.Installed {
		return nil
	}
	if kind.Architecture != runtime.GOARCH {
		return fmt.Errorf("ENGINE=%s is built for this host's architecture alone: leave it out with a machine of %s",
			variant.Name, kind.Architecture)
	}
	dockerd, err := variant.Program(ctx, os.Stdout)
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(share, "engine"), os.DirFS(filepath.Dir(dockerd)))
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
