package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/installed"
)

// tools are programs of the host that the private engine, the CNI plugins and tests run. An engine that the rig builds
// may bring its own.
var tools = []images.Tool{
	{Program: "runc", Package: "runc"},
	{Program: "containerd-shim-runc-v2", Package: "containerd"},
	{Program: "iptables", Package: "iptables"},
	{Program: "dbus-daemon", Package: "dbus-daemon"},
}

// ready fetches missing programs and modules, or returns an error with the packages to install. It compiles nothing and
// takes a minute at most, so the rig calls it first. compiler requires a C compiler, which the race detector needs.
func ready(ctx context.Context, compiler bool) error {
	if os.Geteuid() != 0 {
		return errors.New("the rig makes namespaces and runs a dockerd: run it as root (sudo make test)")
	}
	if compiler {
		if err := hasCompiler(ctx); err != nil {
			return err
		}
	}
	if err := images.Ready(ctx, tools...); err != nil {
		return err
	}
	return fetchModules(ctx)
}

// hasCompiler looks for the C compiler that the go command uses.
func hasCompiler(ctx context.Context) error {
	named, err := gomod.Command(ctx, "", nil, "env", "CC")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(named)) // it may have arguments
	if len(fields) == 0 {
		return errors.New("go env CC names no C compiler, which the race detector needs")
	}
	if _, err := exec.LookPath(fields[0]); err != nil {
		return fmt.Errorf("the race detector needs a C compiler: %w; install one (Debian: apt-get install gcc "+
			"libc6-dev)", err)
	}
	return nil
}

// fetchModules brings all modules of the tree into the module cache. In the namespaces, tests that build programs or
// list packages need more modules than the compilation of the tests fetches.
func fetchModules(ctx context.Context) error {
	root, err := gomod.Root(ctx)
	if err != nil {
		return err
	}
	if _, err := program.Output(ctx, root, nil, "go", "mod", "download"); err != nil {
		return fmt.Errorf("the Go module cache lacks modules of this tree, and they cannot be fetched: run "+
			"`go mod download` where the module proxy can be reached (go env GOPROXY): %w", err)
	}
	return nil
}

// installedHost is the address of the installed engine.
func installedHost() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// readyEngine checks the installed engine, if any of the packages has tests for it.
func readyEngine(ctx context.Context, packages []goPackage) error {
	for _, pkg := range packages {
		has, err := pkg.testsSystem()
		if err != nil {
			return err
		}
		if has {
			_, err := installed.DataRoot(ctx, installedHost())
			if err != nil {
				return fmt.Errorf("%w; HALF=private leaves out the tests on it", err)
			}
			return nil
		}
	}
	return nil
}
