package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// testPlan says which compiled tests to run, and how.
type testPlan struct {
	Binaries  []testBinary
	Label     string   // shown after the packages' names
	Args      []string // for every binary
	Test2JSON string   // the program's path; it cannot be compiled inside
	Timeout   time.Duration
	Verbose   bool

	Output io.Writer `json:"-"` // for the progress; nil means standard output
}

// systemTests matches the names of tests for the installed engine; see rigenv.RequireSystem.
const systemTests = "^TestSystem"

// args returns the test binaries' arguments for the tests on the engine of that kind.
func (o testOptions) args(kind rigenv.Kind) []string {
	args := []string{fmt.Sprintf("-test.count=%d", o.count), "-test.timeout=" + o.timeout.String()}
	switch {
	case o.bench != "":
		return append(args, "-test.run=^$", "-test.bench="+o.bench, "-test.benchtime="+o.benchTime, "-test.benchmem")
	case kind == rigenv.KindSystem && o.run == "":
		return append(args, "-test.run="+systemTests)
	case kind == rigenv.KindSystem:
		return append(args, "-test.run="+o.run)
	case o.run != "":
		args = append(args, "-test.run="+o.run)
	}
	return append(args, "-test.skip="+systemTests)
}

// runAll runs all of the plan's binaries, as runTests does.
func runAll(ctx context.Context, env rigenv.Env, p testPlan) ([]results.Test, error) {
	queue, err := newQueue(len(p.Binaries))
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return runTests(ctx, env, p, nextOf(queue))
}

// runTests runs the plan's binaries whose numbers next returns, one after another, because several criadapters on one
// engine see each other's pods. It returns the leaf tests' outcomes, and an error only if an outcome is unknown or ctx
// has ended.
func runTests(ctx context.Context, env rigenv.Env, p testPlan, next func() (int, bool)) ([]results.Test, error) {
	if p.Output == nil {
		p.Output = os.Stdout
	}
	var tests []results.Test
	for ctx.Err() == nil {
		i, more := next()
		if !more {
			break
		}
		got, err := runAndReport(ctx, env, p, p.Binaries[i])
		if err != nil {
			return nil, err
		}
		tests = append(tests, got...)
	}
	return tests, context.Cause(ctx)
}

// runAndReport runs a binary as runBinary does and reports the outcomes.
func runAndReport(ctx context.Context, env rigenv.Env, p testPlan, binary testBinary) ([]results.Test, error) {
	began := time.Now()
	got, err := runBinary(ctx, env, p, binary)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", binary.Package, p.Label, err)
	}
	report(p.Output, binary.Package+p.Label, got, time.Since(began))
	return got, nil
}

// killDelay is the time from a test binary's own time limit until the rig kills it.
const killDelay = 30 * time.Second

// runBinary runs the tests of one package: the binary's output goes through test2json, whose events are collected.
func runBinary(ctx context.Context, env rigenv.Env, p testPlan, binary testBinary) ([]results.Test, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+killDelay)
	defer cancel()
	test := exec.CommandContext(ctx, binary.Path, append([]string{"-test.v=test2json"}, binary.args(p)...)...)
	test.Dir = binary.Dir
	// A rig that a test starts gets the same engine, mode and registration.
	test.Env = append(append(withoutDocker(os.Environ()), "ENGINE="+env.Engine, "RUNTIME_MODE="+env.Mode,
		"REGISTRATION="+env.Registration), env.Environ()...)
	test.WaitDelay = time.Second // for children that keep the output open
	convert := exec.Command(p.Test2JSON, "-t", "-p", binary.Package)
	convert.Stderr = os.Stderr
	input, err := convert.StdinPipe()
	if err != nil {
		return nil, err
	}
	test.Stdout, test.Stderr = input, input
	events, err := convert.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := convert.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := test.Run()
		input.Close()
		ended <- err
	}()
	pkg, output := results.NewPackage(binary.Package), io.Discard
	if p.Verbose {
		output = p.Output
	}
	err = pkg.Read(events, output)
	exit := <-ended
	if err := errors.Join(err, convert.Wait()); err != nil {
		return nil, err
	}
	return pkg.Finish(exit), nil
}

// withoutDocker drops variables that would lead a test to another engine.
func withoutDocker(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "DOCKER_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// report prints the output of a package's failed tests and then a line for the package. It writes once, because other
// packages write as well.
func report(w io.Writer, pkg string, tests []results.Test, took time.Duration) {
	var text strings.Builder
	count := results.CountOf(tests)
	status := "ok  "
	if count.Failed > 0 {
		status = "FAIL"
	}
	for _, t := range tests {
		if t.Outcome == results.Fail {
			fmt.Fprintf(&text, "--- %s\n%s\n", t, strings.TrimRight(t.Output, "\n"))
		}
	}
	fmt.Fprintf(&text, "%s  %-28s %s  (%.1fs)\n", status, pkg, count, took.Seconds())
	fmt.Fprint(w, text.String())
}

// resultsFile is the name of the file with the tests' outcomes in the scratch directory.
const resultsFile = "results.json"

// writeResults hands the outcomes to the half of the rig outside.
func writeResults(scratchDir string, tests []results.Test) error {
	return program.WriteJSON(filepath.Join(scratchDir, resultsFile), tests)
}

func readResults(scratchDir string) ([]results.Test, error) {
	return program.ReadJSON[[]results.Test](filepath.Join(scratchDir, resultsFile))
}

// readSkips reads the checked-in list of tests that may be skipped.
func readSkips(root string) (*results.Skips, error) {
	f, err := os.Open(filepath.Join(root, "test/rig/skips.txt"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	skips, err := results.ParseSkips(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return skips, nil
}
