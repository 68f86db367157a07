package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/images"
)

// systemSpec is the name of the file with what the suite of a single node demands of the machine, and systemDemands its
// content: any Linux will do.
const systemSpec, systemDemands = "system.yaml", "os: Linux\n"

// suiteGrace is how long the specs get to end after an interrupt. The cluster removes their pods; the rig waits for 20
// seconds.
const suiteGrace = 5 * time.Second

// suite is one run of specs.
type suite struct {
	programs build.Programs
	cluster  *single.Cluster
	// registry is the host:port that serves the images.
	registry string
	set      set
	// leftOut are the names of specs that do not run although the set has them.
	leftOut []string
	// dir is where the log and the report go; what an earlier run left there is overwritten.
	dir       string
	processes int
	timeout   time.Duration
}

// runSpecs runs the specs and returns how each of all ended. That specs fail is no error.
func runSpecs(ctx context.Context, s suite) (_ []report.Spec, err error) {
	work, err := os.MkdirTemp("", "criadapter-specs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	repositories := filepath.Join(work, "repositories.yaml")
	if err := os.WriteFile(repositories, []byte(s.repositories()), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, systemSpec), []byte(systemDemands), 0o644); err != nil {
		return nil, err
	}
	const reportName = "report.json"
	reportPath := filepath.Join(s.dir, reportName)
	if err := os.Remove(reportPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, "specs.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.programs.Ginkgo, s.args(reportName)...)
	// The specs make temporary directories, also ones that they do not remove.
	cmd.Dir, cmd.Env = work, append(os.Environ(), "TMPDIR="+work, "HOME="+work, "KUBE_TEST_REPO_LIST="+repositories)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, newProgress(os.Stdout)), log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = suiteGrace
	fmt.Printf("running the specs of the set %s, %d at once, log in %s\n", s.set.name, s.processes, log.Name())
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text, err := os.Open(reportPath)
	if err != nil {
		return nil, fmt.Errorf("the specs wrote no report (%w), they ended with: %w; see %s", err, runErr, log.Name())
	}
	defer text.Close()
	return report.ParseGinkgo(text)
}

// args are Ginkgo's, and after the specs' program its own.
func (s suite) args(reportName string) []string {
	parallel := s.processes
	if s.set.alone {
		parallel = 1
	}
	args := []string{
		// A busy machine may keep a command from its one second; what is wrong fails again.
		"--flake-attempts=2",
		"--procs=" + strconv.Itoa(parallel), "--focus=" + s.set.focus, "--no-color", "--seed=1", "--timeout=" + s.timeout.String(),
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
			"--host="+s.cluster.Plane.URL, "--bearer-token="+s.cluster.Plane.Token, "--node-name="+single.NodeName,
			"--container-runtime-endpoint="+s.cluster.Server.Endpoint)
	}
	return append(args, s.programs.Specs, "--",
		"--kubeconfig="+s.cluster.Plane.Admin, "--provider=local", "--num-nodes=1", "--repo-root=",
		"--kubectl-path="+s.programs.Kubectl, "--kubelet-root-dir="+s.cluster.KubeletRoot,
		"--container-runtime-endpoint="+s.cluster.Server.Endpoint,
		"--disable-log-dump", "--dump-logs-on-failure=false")
}

// repositories names the registry in the place of those that the specs pull from. Two stay as they are: nobody can pull
// from one, and nobody without an account from the other.
func (s suite) repositories() string {
	return fmt.Sprintf("promoterE2eRegistry: %[1]s/%[2]s\ngcRegistry: %[1]s\ngcEtcdRegistry: %[1]s\n", s.registry, filepath.Clean(images.SpecsPrefix))
}
