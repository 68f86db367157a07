package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// certify runs the certified suite on the cluster that runs, by the programme's own tool, and judges its result.
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
	return judge(ctx, filepath.Join(dir, certifiedJUnit), o.focus)
}

// certifiedName names a run by what differs from the usual cluster.
func (o options) certifiedName() string {
	name := "certified"
	if o.focus != "" {
		name = "focus-certified"
	}
	if mode := os.Getenv("RUNTIME_MODE"); mode != "" {
		name += "-" + filepath.Base(mode)
	}
	if o.node2 != runtimeCriadapter {
		name += "-" + o.node2
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
	output, lines := io.Pipe()
	defer lines.Close()
	go progress(output)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, lines), log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = certifiedEnd
	runErr := cmd.Run()
	if _, err := os.Stat(filepath.Join(dir, certifiedJUnit)); err != nil || ctx.Err() != nil {
		return fmt.Errorf("hydrophone left no report (%w), see %s", errors.Join(runErr, ctx.Err()), log.Name())
	}
	return nil
}

// progress prints the lines of hydrophone's output that say how many specs have ended.
func progress(output io.Reader) {
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n') // one of them has a letter for each spec of Kubernetes
		if strings.Contains(line, "Progress:") {
			fmt.Print(line)
		}
		if err != nil {
			return
		}
	}
}

// judge prints how the specs ended. It fails if they did not end as expected, or if not all of the release's list ran.
func judge(ctx context.Context, file, focus string) error {
	text, err := os.Open(file)
	if err != nil {
		return err
	}
	defer text.Close()
	specs, err := report.ParseJUnit(text)
	if err != nil {
		return err
	}
	expected, err := report.ReadExpected(expectedFile)
	if err != nil {
		return err
	}
	listed, err := build.CertifiedSpecs(ctx)
	if err != nil {
		return err
	}
	notRun := map[string]bool{}
	ran := slices.DeleteFunc(slices.Clone(specs), func(s report.Spec) bool {
		notRun[s.Name] = !s.Ran
		return !s.Ran
	})
	verdict := report.Judge("certified", ran, expected.Without(notRun))
	fmt.Print(verdict)
	total := len(ran)
	if focus == "" {
		total = len(listed)
		fmt.Printf("%d specs ran, the release's list has %d\n", len(ran), total)
		err = missingSpecs(ran, listed)
	}
	return errors.Join(err, verdict.Err(total))
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
