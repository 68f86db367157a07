package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/images"
)

// The two files that a certification asks for.
const (
	certifiedLog   = "e2e.log"
	certifiedJUnit = "junit_01.xml"
)

// expectedFile has the specs that are expected not to pass, with their causes.
const expectedFile = "test/cluster/kubeadm/expected.yaml"

// certifiedEnd is how long hydrophone gets to end after a signal.
const certifiedEnd = 10 * time.Second

// certify runs the certified suite on the running cluster, by the certification programme's own tool, and judges the
// result.
func certify(ctx context.Context, o options) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(o.report, o.certifiedName()))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := hydrophone(ctx, p.Programs.Hydrophone, dir, o); err != nil {
		return err
	}
	fmt.Printf("took %s; %s and %s are in %s\n", time.Since(began).Round(time.Second), certifiedLog, certifiedJUnit,
		dir)
	specs, err := readJUnit(filepath.Join(dir, certifiedJUnit))
	if err != nil {
		return err
	}
	expected, err := report.ReadExpected(expectedFile)
	if err != nil {
		return err
	}
	var listed []string
	if o.focus == "" {
		if listed, err = build.CertifiedSpecs(ctx); err != nil {
			return err
		}
	}
	return judge(specs, listed, expected)
}

func readJUnit(path string) ([]report.Spec, error) {
	text, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return report.ParseJUnit(text)
}

// certifiedName names a run by what differs from the usual cluster.
func (o options) certifiedName() string {
	name := "certified"
	if o.focus != "" {
		name = "focus-certified"
	}
	if mode := os.Getenv("RUNTIME_MODE"); mode != "" {
		name += "-" + mode
	}
	if o.node2 != runtimeCriadapter {
		name += "-" + o.node2
	}
	if o.family != familyIPv4 {
		name += "-" + o.family
	}
	if o.network != "" && o.network != networkFlannel {
		name += "-" + o.network
	}
	return name
}

// hydrophone runs the tool, which leaves its files in dir. Failed specs are not errors.
func hydrophone(ctx context.Context, tool, dir string, o options) error {
	repositories := filepath.Join(dir, "repositories.yaml")
	if err := os.WriteFile(repositories, []byte(images.SpecsRepositories(registryAddress)), 0o644); err != nil {
		return err
	}
	for _, file := range []string{certifiedLog, certifiedJUnit} {
		if err := os.Remove(filepath.Join(dir, file)); !errors.Is(err, os.ErrNotExist) && err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(dir, "hydrophone.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"--kubeconfig", kubeconfigFile, "--output-dir", dir, "--parallel", strconv.Itoa(o.processes),
		"--conformance-image", registryAddress + "/" + conformanceImage,
		"--busybox-image", registryAddress + "/" + images.SpecsPrefix + "busybox:1.37.0-1",
		"--test-repo-list", repositories}
	if o.focus == "" {
		args = append(args, "--conformance")
	} else {
		args = append(args, "--focus", o.focus)
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, &progress{out: os.Stdout}), log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = certifiedEnd
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &failed) || !failed.Exited()) {
		return fmt.Errorf("hydrophone: %w, see %s", err, log.Name())
	}
	if _, err := os.Stat(filepath.Join(dir, certifiedJUnit)); err != nil {
		return fmt.Errorf("hydrophone left no report, see %s: %w", log.Name(), err)
	}
	return ctx.Err()
}

// progress prints the lines of hydrophone's output that say how many specs have ended.
type progress struct {
	out  io.Writer
	line []byte // the beginning of the current line
}

// Write takes a piece of the output.
func (p *progress) Write(piece []byte) (int, error) {
	p.line = append(p.line, piece...)
	for {
		line, rest, ended := bytes.Cut(p.line, []byte("\n"))
		if !ended {
			return len(piece), nil
		}
		if bytes.Contains(line, []byte("Progress:")) {
			fmt.Fprintf(p.out, "%s\n", line)
		}
		p.line = rest
	}
}

// judge prints how the specs ended. It fails if they did not end as expected, or if a listed spec did not run. An empty
// list says that a pattern has chosen the specs.
func judge(specs []report.Spec, listed []string, expected report.Expected) error {
	notRun := map[string]bool{}
	ran := slices.DeleteFunc(slices.Clone(specs), func(s report.Spec) bool {
		notRun[s.Name] = !s.Ran
		return !s.Ran
	})
	if len(ran) == 0 {
		return errors.New("no spec ran")
	}
	verdict := report.Judge("certified", ran, expected.Without(notRun))
	fmt.Print(verdict)
	if len(listed) == 0 {
		return verdict.Err(len(ran))
	}
	fmt.Printf("%d specs ran, the release's list has %d\n", len(ran), len(listed))
	return errors.Join(missingSpecs(ran, listed), verdict.Err(len(listed)))
}

// missingSpecs names the listed specs that did not run.
func missingSpecs(ran []report.Spec, listed []string) error {
	var errs []error
	for _, name := range listed {
		if !slices.ContainsFunc(ran, func(s report.Spec) bool { return s.Name == name }) {
			errs = append(errs, fmt.Errorf("on the release's list, and did not run: %s", name))
		}
	}
	return errors.Join(errs...)
}
