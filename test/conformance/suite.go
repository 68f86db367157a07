package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/images"
)

// systemSpec is the name of the file with the node suite's demands on the machine, and systemDemands its content. It
// allows any Linux.
const systemSpec, systemDemands = "system.yaml", "os: Linux\n"

// suiteGrace is how long the specs get to end after an interrupt. It is short, because afterwards the cluster removes
// their pods. The rig waits 45 seconds for the specs and the removal.
const suiteGrace = 5 * time.Second

// suite is one run of specs.
type suite struct {
	programs build.Programs
	cluster  cluster
	// registry is the host:port that serves the images.
	registry string
	set      set
	// leftOut has the names of the set's specs that are not to run.
	leftOut []string
	// dir is the directory of the log and the report. Files of an earlier run are overwritten.
	dir       string
	processes int
	timeout   time.Duration
}

// runSpecs runs the specs and returns how each ended. Failed specs are not errors.
func runSpecs(ctx context.Context, s suite) (specs []report.Spec, err error) {
	err = program.InDir(func(work string) (err error) {
		specs, err = s.run(ctx, work)
		return err
	})
	return specs, err
}

func (s suite) run(ctx context.Context, work string) ([]report.Spec, error) {
	repositories := filepath.Join(work, "repositories.yaml")
	if err := os.WriteFile(repositories, []byte(images.SpecsRepositories(s.registry)), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, systemSpec), []byte(systemDemands), 0o644); err != nil {
		return nil, err
	}
	const reportName = "report.json"
	run := report.Suite{
		Program: s.programs.Ginkgo, Args: s.args(reportName), Report: filepath.Join(s.dir, reportName), Dir: work,
		Log: filepath.Join(s.dir, "specs.log"), Progress: newProgress(os.Stdout), Grace: suiteGrace,
		Environ: []string{"HOME=" + work, "KUBE_TEST_REPO_LIST=" + repositories},
	}
	fmt.Printf("running the specs of the set %s, %d at once, log in %s\n", s.set.name, s.processes, run.Log)
	return run.Run(ctx)
}

// args are the arguments of Ginkgo, then the specs' program and its arguments.
func (s suite) args(reportName string) []string {
	parallel := s.processes
	if s.set.alone {
		parallel = 1
	}
	args := []string{
		// A second attempt, since a busy machine can exceed a one-second timeout. A real fault fails again.
		"--flake-attempts=2",
		"--procs=" + strconv.Itoa(parallel), "--focus=" + s.set.focus, "--no-color", "--seed=1",
		"--timeout=" + s.timeout.String(),
		"--output-dir=" + s.dir, "--json-report=" + reportName,
	}
	if s.set.skip != "" {
		args = append(args, "--skip="+s.set.skip)
	}
	for _, name := range s.leftOut {
		args = append(args, "--skip="+regexp.QuoteMeta(name)+"$")
	}
	if s.set.node {
		return append(args, s.programs.Specs, "--",
			"--start-services=false", "--stop-services=false", "--prepull-images=false",
			"--system-spec-file="+filepath.Join(s.dir, systemSpec), "--config-dir="+s.dir,
			"--host="+s.cluster.plane.URL, "--bearer-token="+s.cluster.plane.Token, "--node-name="+single.NodeName,
			"--container-runtime-endpoint="+s.cluster.endpoint)
	}
	return append(args, s.programs.Specs, "--",
		"--kubeconfig="+s.cluster.plane.Admin, "--provider=local", "--num-nodes=1", "--repo-root=",
		"--kubectl-path="+s.programs.Kubectl, "--kubelet-root-dir="+s.cluster.kubeletRoot,
		"--container-runtime-endpoint="+s.cluster.endpoint,
		"--disable-log-dump", "--dump-logs-on-failure=false")
}
