package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/critest/registry"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/program"
)

// suiteGrace is how long the suite gets to remove its pods after an interrupt.
const suiteGrace = 30 * time.Second

// suite is one run of critest.
type suite struct {
	// program is the path of critest.
	program string
	// endpoint is the server's address, unix:///….
	endpoint string
	// registry is the host:port that serves the images.
	registry string
	// reportDir is the directory of the log and the reports. Files of an earlier run are overwritten.
	reportDir string
	// handler is the runtime handler of the pods, empty for the default one.
	handler string
}

// runSuite runs all specs in a fixed order, and returns how each ended. Failed specs are not errors.
func runSuite(ctx context.Context, s suite) (specs []report.Spec, err error) {
	stopRegistry, err := registry.Serve(s.registry)
	if err != nil {
		return nil, err
	}
	defer stopRegistry()
	run := report.Suite{
		Program: s.program, Grace: suiteGrace,
		Report: filepath.Join(s.reportDir, "critest.json"), Log: filepath.Join(s.reportDir, "critest.log"),
	}
	run.Args = []string{
		"-runtime-endpoint=" + s.endpoint, "-image-endpoint=" + s.endpoint, "-report-dir=" + s.reportDir,
		"-ginkgo.json-report=" + run.Report, "-ginkgo.no-color", "-ginkgo.timeout=1h", "-ginkgo.seed=1",
		"-ginkgo.flake-attempts=2",
		"-runtime-handler=" + s.handler,
	}
	fmt.Printf("running critest against %s, log in %s\n", s.endpoint, run.Log)
	err = program.InDir(func(dir string) (err error) {
		run.Dir = dir
		specs, err = run.Run(ctx)
		return errors.Join(err, program.UnmountBelow(dir))
	})
	return specs, err
}
