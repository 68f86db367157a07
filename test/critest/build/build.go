// Package build makes crictl and critest in the versions that test/critest/tools/go.mod pins. It keeps them in the
// cache, see package test/rig/cache. Only the first build takes about a minute and needs the Go module proxy.
//
// critest has image names of public registries in constants. The build replaces them by a registry on this machine, in
// a temporary copy of the source. Critest.Diff has the change.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// module is the module of crictl and critest.
const module = "sigs.k8s.io/cri-tools"

// linkerFlags strip the programs and stamp them with the version that they print.
const linkerFlags = "-s -w -X " + module + "/pkg/version.Version="

// Crictl returns the path of crictl, built without changes. The architecture is a value of GOARCH.
func Crictl(ctx context.Context, architecture string) (string, error) {
	pinned, err := pinnedTools(ctx, architecture)
	if err != nil {
		return "", err
	}
	dir, err := cache.Fill(ctx, pinned.key("crictl"), func(ctx context.Context, dir string) error {
		return pinned.compile(ctx, pinned.dir, "build", "-trimpath", "-ldflags", linkerFlags+pinned.version,
			"-o", filepath.Join(dir, "crictl"), module+"/cmd/crictl")
	})
	return filepath.Join(dir, "crictl"), err
}

// Critest is a built critest.
type Critest struct {
	// Path is the program.
	Path string
	// Version is the version of its module.
	Version string
	// Diff is the change to its source, as a unified diff without context.
	Diff string
}

// Names of the files in a cache entry of critest.
const (
	critestFile = "critest"
	diffFile    = "registry.diff"
)

// CritestCached says whether NewCritest has nothing to build for this host.
func CritestCached(ctx context.Context, registry Registry) (bool, error) {
	pinned, err := pinnedTools(ctx, runtime.GOARCH)
	if err != nil {
		return false, err
	}
	patch, err := registryPatch(registry)
	if err != nil {
		return false, err
	}
	return cache.Has(pinned.critestKey(patch))
}

// NewCritest returns critest for a registry. The architecture is a value of GOARCH.
func NewCritest(ctx context.Context, registry Registry, architecture string) (Critest, error) {
	pinned, err := pinnedTools(ctx, architecture)
	if err != nil {
		return Critest{}, err
	}
	patch, err := registryPatch(registry)
	if err != nil {
		return Critest{}, err
	}
	dir, err := cache.Fill(ctx, pinned.critestKey(patch), func(ctx context.Context, dir string) error {
		return buildCritest(ctx, pinned, patch, dir)
	})
	if err != nil {
		return Critest{}, err
	}
	diff, err := os.ReadFile(filepath.Join(dir, diffFile))
	if err != nil {
		return Critest{}, err
	}
	return Critest{Path: filepath.Join(dir, critestFile), Version: pinned.version, Diff: string(diff)}, nil
}

// buildCritest writes the program and the diff to dir. It adds a replace directive for the patched copy to a copy of
// the tools' go.mod, so every other version stays as pinned.
func buildCritest(ctx context.Context, pinned tools, patch patch, dir string) error {
	source, err := pinned.source(ctx)
	if err != nil {
		return err
	}
	return gomod.InCopy(source, func(sourceCopy string) error {
		diff, err := patch.apply(sourceCopy)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, diffFile), []byte(diff), 0o644); err != nil {
			return err
		}
		return gomod.InCopy(pinned.dir, func(work string) error {
			if _, err := gomod.Command(ctx, work, nil, "mod", "edit", "-replace", module+"="+sourceCopy); err != nil {
				return err
			}
			return pinned.compile(ctx, work, "test", "-c", "-trimpath", "-ldflags", linkerFlags+pinned.version,
				"-o", filepath.Join(dir, critestFile), module+"/cmd/critest")
		})
	})
}

// tools is the module that pins the versions.
type tools struct {
	// dir is its directory in this repository.
	dir string
	// version is the version of cri-tools in it.
	version string
	// sum is a fingerprint of all versions in it.
	sum string
	// architecture is the programs' value of GOARCH.
	architecture string
}

// pinnedTools finds the module from the current directory, which must be in criadapter's own module.
func pinnedTools(ctx context.Context, architecture string) (tools, error) {
	root, err := gomod.Root(ctx)
	if err != nil {
		return tools{}, fmt.Errorf("%w; run this in criadapter's source tree", err)
	}
	t := tools{dir: filepath.Join(root, "test", "critest", "tools"), architecture: architecture}
	content, err := os.ReadFile(filepath.Join(t.dir, "go.mod"))
	if err != nil {
		return tools{}, fmt.Errorf("%w; run this in criadapter's source tree", err)
	}
	sum := sha256.Sum256(content)
	t.sum = hex.EncodeToString(sum[:6])
	t.version, err = requiredVersion(ctx, t.dir)
	return t, err
}

// requiredVersion reads the version of cri-tools from the go.mod in dir. Unlike go list, this needs no module proxy.
func requiredVersion(ctx context.Context, dir string) (string, error) {
	output, err := gomod.Command(ctx, dir, nil, "mod", "edit", "-json")
	if err != nil {
		return "", err
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(output, &file); err != nil {
		return "", fmt.Errorf("go mod edit -json: %w", err)
	}
	for _, required := range file.Require {
		if required.Path == module {
			return required.Version, nil
		}
	}
	return "", fmt.Errorf("%s requires no %s", filepath.Join(dir, "go.mod"), module)
}

// key names the cache entry of one program.
func (t tools) key(program string, more ...string) string {
	parts := []string{program, module + "@" + t.version, runtime.GOOS, t.architecture, runtime.Version(), "trimpath",
		t.sum}
	return cache.Key(append(parts, more...)...)
}

// critestKey names the cache entry of critest with that patch.
func (t tools) critestKey(p patch) string { return t.key("critest", p.fingerprint()) }

// source returns the directory of cri-tools in the module cache. It downloads the module if it is missing.
func (t tools) source(ctx context.Context) (string, error) {
	downloaded, err := gomod.Download(ctx, t.dir, module)
	return downloaded.Dir, err
}

// compile runs a go command in dir that compiles for the architecture.
func (t tools) compile(ctx context.Context, dir string, args ...string) error {
	_, err := gomod.Command(ctx, dir, []string{"GOARCH=" + t.architecture}, args...)
	return err
}
