package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	critools "github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/cniplugins"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/gvisor"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// plan is passed from the half of the rig outside the namespaces to the half inside.
type plan struct {
	Env      rigenv.Env
	CacheDir string // of the image catalogue
	Cgroup   string // parent of the engine's containers
	CgroupV2 bool   // only cgroup v2 is mounted

	// At most one is set: a command to run, or tests to run. With neither the rig stays up until interrupted.
	Command []string
	Tests   *testPlan
}

// planFile is the name of the plan's file in the scratch directory.
const planFile = "plan.json"

// writePlan hands the plan to the processes inside the namespaces.
func writePlan(scratchDir string, p plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(scratchDir, planFile), data, 0o600)
}

func readPlan(scratchDir string) (plan, error) {
	return program.ReadJSON[plan](filepath.Join(scratchDir, planFile))
}

// stays says whether the rig only waits for an interrupt.
func (p plan) stays() bool { return len(p.Command) == 0 && p.Tests == nil }

// describe returns the description of the rig without the server's program. It builds the CNI plugins and crictl.
func describe(ctx context.Context, s *scratch, on target) (rigenv.Env, error) {
	env := rigenv.Env{WorkDir: s.workDir(), Engine: on.Name, Mode: on.mode, Registration: on.registration}
	var err error
	if env.Dockerd, err = on.Program(ctx, os.Stderr); err != nil {
		return env, err
	}
	if err := on.canRegister(ctx, env.Dockerd); err != nil {
		return env, err
	}
	if env.NegativeOOM, err = hasSysResource(); err != nil {
		return env, err
	}
	if env.CNIBinDir, err = cniplugins.Build(ctx, runtime.GOARCH); err != nil {
		return env, err
	}
	// The namespaces have no network, so crictl is cached now.
	_, err = critools.Crictl(ctx, runtime.GOARCH)
	return env, err
}

// buildCriadapter runs `make build` and copies the server's program, so that later builds do not change it under
// running tests.
func buildCriadapter(ctx context.Context, s *scratch) (string, error) {
	root, err := gomod.Root(ctx)
	if err != nil {
		return "", err
	}
	if _, err := program.Output(ctx, "", nil, "make", "-s", "-C", root, "build"); err != nil {
		return "", err
	}
	copied := s.path("criadapter")
	return copied, program.CopyFile(filepath.Join(root, "build", "criadapter"), copied)
}

// prepare completes p for a private engine; describe has filled in its Env.
func prepare(ctx context.Context, s *scratch, p *plan) error {
	p.Env.Kind = rigenv.KindPrivate
	if !p.Env.NegativeOOM {
		p.Env.RuntimeWrapper = s.path("runtime/runc")
		if err := build(ctx, p.Env.RuntimeWrapper, "./test/rig/ociwrap"); err != nil {
			return err
		}
	}
	p.Env.OCIRuntime = s.path("oci/bin/criadapter-oci")
	if err := build(ctx, p.Env.OCIRuntime, "./cmd/criadapter-oci"); err != nil {
		return err
	}
	if err := linkShim(p.Env.OCIRuntime); err != nil {
		return err
	}
	// The namespaces have no network, so gVisor is cached now.
	if _, err := gvisor.Runsc(ctx); err != nil {
		return err
	}
	variant, err := engine.Named(p.Env.Engine)
	if err != nil {
		return err
	}
	p.CgroupV2 = variant.CgroupV2
	if p.CacheDir, err = cache.Dir(); err != nil {
		return err
	}
	if _, err := images.Catalog(ctx, p.CacheDir); err != nil {
		return fmt.Errorf("test images: %w", err)
	}
	return nil
}

// linkShim makes the same links to the program as the deb: the shim's name beside the program, and runc in
// ../libexec/criadapter. The program must be in a directory bin.
func linkShim(program string) error {
	bin := filepath.Dir(program)
	libexec := filepath.Join(bin, "../libexec/criadapter")
	if err := os.MkdirAll(libexec, 0o755); err != nil {
		return err
	}
	name := filepath.Base(program)
	return errors.Join(
		os.Symlink(name, filepath.Join(bin, "containerd-shim-criadapter-v2")),
		os.Symlink(filepath.Join("../../bin", name), filepath.Join(libexec, "runc")))
}

// build compiles one static program of this module to path.
func build(ctx context.Context, path, pkg string) error {
	root, err := gomod.Root(ctx)
	if err != nil {
		return err
	}
	_, err = gomod.Command(ctx, root, []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-ldflags", "-s -w", "-o", path,
		pkg)
	return err
}

// capSysResource is CAP_SYS_RESOURCE's number in <linux/capability.h>.
const capSysResource = 24

// hasSysResource says whether CAP_SYS_RESOURCE is in the bounding set, so that containers may get it.
func hasSysResource() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return set>>capSysResource&1 == 1, err
		}
	}
	return false, errors.New("/proc/self/status has no CapBnd line")
}
