package engine

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/rig/engine/build"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Installed is the name of the machine's own engine.
const Installed = "installed"

// Variant is an engine that tests run on: its programs and its settings.
type Variant struct {
	// Name is its name in ENGINE.
	Name string
	// CgroupV2 says that the engine runs where only cgroup v2 is mounted.
	CgroupV2 bool
	// release is the build of its programs, nil for the installed ones.
	release func() build.Release
	// config is added to daemon.json. It names a storage driver.
	config map[string]any
}

// graphDriver and contentStore are the settings for the two image stores of an engine.
func graphDriver() map[string]any { return map[string]any{"storage-driver": "overlay2"} }

func contentStore() map[string]any {
	return map[string]any{"storage-driver": "overlayfs", "features": map[string]bool{"containerd-snapshotter": true}}
}

// variants returns all engines. The first one is the default.
func variants() []Variant {
	return []Variant{
		{Name: Installed, config: graphDriver()},
		{Name: "25-overlay2", release: build.Between, config: graphDriver()},
		{Name: "29-overlay2", release: build.Newest, config: graphDriver()},
		{Name: "29-containerd", release: build.Newest, config: contentStore()},
		{Name: "29-cgroup2", release: build.Newest, config: contentStore(), CgroupV2: true},
	}
}

// Named returns the engine of a name, Installed when it is empty. An absolute path names another dockerd.
func Named(name string) (Variant, error) {
	if filepath.IsAbs(name) {
		return Variant{Name: name, config: graphDriver()}, nil
	}
	var names []string
	for _, v := range variants() {
		if name == v.Name || name == "" {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return Variant{}, fmt.Errorf("ENGINE=%s: want one of %s, or the path of a dockerd", name, strings.Join(names, ", "))
}

// List returns the engines of a comma-separated list of names.
func List(names string) ([]Variant, error) {
	var list []Variant
	for name := range strings.SplitSeq(names, ",") {
		v, err := Named(name)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// CopyDriver is the storage driver of the rig's engine that copies whole layers instead of using overlays.
func CopyDriver(env rigenv.Env) string {
	if v, err := Named(env.Engine); err == nil && v.config["features"] != nil {
		return "native"
	}
	return "vfs"
}

// Config returns the engine's settings for daemon.json. The caller must not change them.
func (v Variant) Config() map[string]any { return v.config }

// Cached says whether Program has nothing to build.
func (v Variant) Cached() (bool, error) {
	if v.release == nil {
		return true, nil
	}
	return v.release().Cached()
}

// Program returns the path of dockerd, with its other programs beside it. It builds missing programs and writes its
// progress.
func (v Variant) Program(ctx context.Context, progress io.Writer) (string, error) {
	switch {
	case filepath.IsAbs(v.Name):
		return v.Name, nil
	case v.release != nil:
		dir, err := v.release().Build(ctx, progress)
		return filepath.Join(dir, "dockerd"), err
	}
	found, err := images.FindTool("dockerd")
	if err != nil {
		return "", fmt.Errorf("%w; install Docker Engine 20.10 or later, or name another with ENGINE=", err)
	}
	return found, nil
}
