package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/registry"
	"github.com/criadapter/criadapter/test/vm/node"
)

const (
	// critestSpecs is the number of specs of the suite, benchmarks included. Where SELinux is in force, it has
	// selinuxSpecs more.
	critestSpecs, selinuxSpecs = 122, 17
	// registryPort is compiled into the suite.
	registryPort = 5000
	// reportDir is where the log and the report go.
	reportDir = "build/vm"
	// criSocket is the address of the server's socket on the machine.
	criSocket = "unix:///run/criadapter/criadapter.sock"
)

// critest runs the CRI validation suite on the machine and compares its result with the list of make critest.
func (s *suite) critest(ctx context.Context) (err error) {
	expected, err := report.ReadExpected("test/critest/expected.yaml")
	if err != nil {
		return err
	}
	features, machine, err := node.Features(ctx, s.machine)
	if err != nil {
		return err
	}
	program, stop, err := s.serveImages(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Printf("Docker Engine %s, API %s, %s, cgroup v%d, driver %s, AppArmor %t, SELinux %t\n",
		features.ServerVersion, features.APIVersion, features.StorageDriver, features.CgroupVersion,
		features.CgroupDriver, features.AppArmor, features.SELinux)
	specs, err := s.runCritest(ctx, program)
	if err != nil {
		return err
	}
	verdict := report.Judge("critest", specs, expected.On(features, machine))
	fmt.Print(verdict)
	if features.SELinux {
		return verdict.Err(critestSpecs + selinuxSpecs)
	}
	return verdict.Err(critestSpecs)
}

// serveImages serves the test images on the machine's port registryPort. It copies the suite, which is compiled for
// that port, to the machine, and returns the suite's path there.
func (s *suite) serveImages(ctx context.Context) (program string, stop func() error, err error) {
	all, err := node.Catalog(ctx, s.kind)
	if err != nil {
		return "", nil, err
	}
	digest, err := all[images.CritestDigestImage].Digest()
	if err != nil {
		return "", nil, err
	}
	critest, err := build.NewCritest(ctx, build.Registry{Port: registryPort, Digest: digest.String()},
		s.kind.Architecture)
	if err != nil {
		return "", nil, err
	}
	program = "/opt/critest/critest"
	if err := s.machine.Copy(ctx, critest.Path, program); err != nil {
		return "", nil, err
	}
	server, err := registry.Start(ctx, all)
	if err != nil {
		return "", nil, err
	}
	if err := s.machine.Listen(ctx, registryPort, server.Addr); err != nil {
		return "", nil, errors.Join(err, server.Close())
	}
	return program, server.Close, nil
}

// runCritest runs the suite and returns how each spec ended. A failed spec is not an error.
func (s *suite) runCritest(ctx context.Context, program string) ([]report.Spec, error) {
	if err := os.MkdirAll(reportDir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(reportDir, "critest.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Printf("running critest on the machine, log in %s\n", log.Name())
	dir := filepath.Dir(program)
	command := []string{program, "-runtime-endpoint=" + criSocket, "-image-endpoint=" + criSocket, "-report-dir=.",
		"-ginkgo.json-report=critest.json", "-ginkgo.no-color", "-ginkgo.timeout=6h", "-ginkgo.seed=1", s.critestArgs}
	lines := "cd " + dir + " && exec " + strings.Join(command, " ")
	if _, err := s.machine.Stream(ctx, log, log, "sh", "-c", lines); err != nil {
		return nil, err
	}
	text, err := s.machine.Run(ctx, "cat", filepath.Join(dir, "critest.json"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(reportDir, "critest.json"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	return report.ParseGinkgo(strings.NewReader(text))
}
