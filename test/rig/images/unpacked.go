package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/rig/cache"
)

// Ready makes sure that the host has the given tools, and also the programs that images contain, see Packages. Catalog
// and Specs then work without a package registry.
func Ready(ctx context.Context, tools ...Tool) error {
	inside := slices.Concat(userland(), SpecTools())
	if err := Packages(ctx, slices.Concat(tools, inside)...); err != nil {
		return err
	}
	for _, tool := range inside {
		if _, err := dynamicProgram(ctx, tool); err != nil {
			return err
		}
	}
	return nil
}

// dynamicProgram returns the path of a tool's dynamically linked program. If the host's is static, like the one in
// Debian's busybox-static, the tool's package is unpacked into the cache, not installed.
func dynamicProgram(ctx context.Context, tool Tool) (string, error) {
	path, err := FindTool(tool.Program)
	if err != nil {
		return "", err
	}
	if _, err := interpreter(path); !errors.Is(err, errStatic) {
		return path, err
	}
	if !isDebian() {
		return "", fmt.Errorf("%s is static, and the images need a dynamically linked one: "+
			"install the equivalent of Debian's package %s, and put its directory first on PATH", path, tool.Package)
	}
	key := cache.Key("debian", tool.Package, runtime.GOARCH, hostRelease())
	dir, err := cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		return unpackPackage(ctx, tool.Package, dir)
	})
	if err != nil {
		return "", fmt.Errorf("%s is static, and the images need a dynamically linked one, as in Debian's package "+
			"%s: %w",
			path, tool.Package, err)
	}
	for _, below := range []string{"bin", "usr/bin", "sbin", "usr/sbin"} {
		if found, err := exec.LookPath(filepath.Join(dir, below, tool.Program)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("the Debian package %s has no program %s: %s", tool.Package, tool.Program, dir)
}

// hostRelease names the host's system, so that another release does not find the cached program of an earlier one.
func hostRelease() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "unknown"
	}
	release := ""
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name == "ID" || name == "VERSION_ID" {
			release += strings.Trim(value, `"`)
		}
	}
	return release
}

// unpackPackage puts the files of a Debian package into dir, without running the package's scripts.
func unpackPackage(ctx context.Context, name, dir string) error {
	temp, err := os.MkdirTemp("", "debian-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := fetch(ctx, temp, "-q", "download", name); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("apt-get download %s brought %d files, want one", name, len(files))
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--extract", files[0], dir)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("dpkg-deb --extract: %w\n%s", err, output.String())
	}
	return nil
}
