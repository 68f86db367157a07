// Package build builds Docker Engines by module name and keeps their programs in the cache (see package
// test/rig/cache). A distribution has packages of only one version of the engine, often an old one.
package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

// Release is an engine to build.
type Release struct {
	// version is the version that the engine reports.
	version string
	// programs are in the order of their builds. The engine takes all other programs that it needs from this machine.
	programs []program
}

// program is one program of a release.
type program struct {
	name, pkg, version, linkerFlags string
	// vendored is the program's module if that module has Docker's vendor.mod instead of a go.mod.
	vendored string
	// seccomp links libseccomp: a runc without it would ignore seccomp profiles, and tests would pass wrongly.
	seccomp bool
}

// Moby is the module of the newest engine, and MobyVersion its version. containerd is the containerd of that engine.
const (
	Moby              = "github.com/moby/moby/v2"
	MobyVersion       = "v2.0.0-beta.24"
	containerd        = "github.com/containerd/containerd/v2"
	containerdVersion = "v2.4.2"
)

// Newest is the newest engine. Each program's module is the main module of its build. So a program gets the
// dependencies of its release, which the checksum database verifies.
func Newest() Release {
	const (
		// version is the Docker release with this module's API version. The module itself does not know its release.
		version     = "29.8.0"
		runcVersion = "v1.5.2"
		stamp       = "-X " + Moby + "/dockerversion.Version=" + version
	)
	return Release{version: version, programs: []program{
		{name: "containerd", pkg: containerd + "/cmd/containerd", version: containerdVersion},
		{name: "containerd-shim-runc-v2", pkg: containerd + "/cmd/containerd-shim-runc-v2", version: containerdVersion},
		{name: "docker-proxy", pkg: Moby + "/cmd/docker-proxy", version: MobyVersion, linkerFlags: stamp},
		{name: "dockerd", pkg: Moby + "/cmd/dockerd", version: MobyVersion, linkerFlags: stamp},
		{name: "runc", pkg: "github.com/opencontainers/runc", version: runcVersion, seccomp: true,
			linkerFlags: "-X main.version=" + runcVersion[1:]},
	}}
}

// Between is an engine between 20.10 and the newest, on the installed containerd and runc.
func Between() Release {
	const docker, version = "github.com/docker/docker", "25.0.13"
	return Release{version: version, programs: []program{{
		name: "dockerd", pkg: docker + "/cmd/dockerd", version: "v" + version + "+incompatible", vendored: docker,
		linkerFlags: "-X " + docker + "/dockerversion.Version=" + version,
	}}}
}

// Cached says whether the cache has all programs.
func (r Release) Cached() (bool, error) { return cache.Has(r.key()) }

// Build returns the directory of the programs. It builds missing programs and writes lines to progress. This takes
// about five minutes on two cores and needs the Go module proxy.
func (r Release) Build(ctx context.Context, progress io.Writer) (string, error) {
	return cache.Fill(ctx, r.key(), func(ctx context.Context, dir string) error {
		// This comes before minutes of compiling, so that a missing package registry is an error at once.
		if slices.ContainsFunc(r.programs, func(p program) bool { return p.seccomp }) {
			if err := images.Packages(ctx, libseccomp...); err != nil {
				return err
			}
		}
		for _, p := range r.programs {
			fmt.Fprintf(progress, "Docker Engine %s: building %s %s …\n", r.version, p.name, p.version)
			began := time.Now()
			compile := p.install
			if p.vendored != "" {
				compile = p.buildVendored
			}
			if err := compile(ctx, dir); err != nil {
				return err
			}
			fmt.Fprintf(progress, "Docker Engine %s: built %s in %s\n", r.version, p.name,
				time.Since(began).Round(time.Second))
		}
		return nil
	})
}

// key names the release's cache entry. The key has the engine's version, the names and versions of all programs, the
// platform and the version of Go.
func (r Release) key() string {
	parts := []string{"engine", r.version}
	for _, p := range r.programs {
		parts = append(parts, p.name+"@"+p.version)
	}
	return cache.Key(append(parts, runtime.GOOS, runtime.GOARCH, runtime.Version())...)
}

// libseccomp are the packages that linking with libseccomp needs besides a C compiler.
var libseccomp = []images.Tool{
	{File: "/usr/include/seccomp.h", Package: "libseccomp-dev"},
	{Program: "pkg-config", Package: "pkg-config"},
}

// install compiles the program to dir, outside of any module.
func (p program) install(ctx context.Context, dir string) error {
	environ := []string{"CGO_ENABLED=0", "GOBIN=" + dir}
	args := []string{"install", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + p.linkerFlags}
	if p.seccomp {
		environ[0] = "CGO_ENABLED=1"
		args = append(args, "-tags", "seccomp")
	}
	_, err := gomod.Command(ctx, dir, append(environ, gomod.Native()...), append(args, p.pkg+"@"+p.version)...)
	return err
}

// buildVendored compiles the program to dir in a module made of vendor.mod, which has the versions of the release.
func (p program) buildVendored(ctx context.Context, dir string) error {
	module, err := os.MkdirTemp("", "criadapter-engine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	if err := p.writeModule(ctx, module); err != nil {
		return err
	}
	// The program's module has no go.mod that says which Go its sources are written for.
	_, err = gomod.Command(ctx, module, append([]string{"CGO_ENABLED=0"}, gomod.Native()...), "build", "-mod=mod",
		"-trimpath", "-buildvcs=false", "-gcflags="+p.vendored+"/...=-lang=go1.23", "-ldflags",
		"-s -w "+p.linkerFlags, "-o", filepath.Join(dir, p.name), p.pkg)
	return err
}
