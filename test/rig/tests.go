package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// testPlan says which compiled tests to run, and how.
type testPlan struct {
	Binaries  []testBinary
	Label     string   // follows the packages' names in what is shown
	Args      []string // for every binary
	Test2JSON string   // the program; compiling it on demand is not possible inside
	Parallel  int      // so many packages at once in a lane, see lanes
	OneLane   bool     // nothing runs beside a package
	Timeout   time.Duration
	Verbose   bool
	Again     bool   // failed tests run a second time, each alone
	Results   string // file that the outcome is written to

	Output io.Writer `json:"-"` // where progress is shown; nil means standard output
}

// systemTests is what the names of tests for the installed engine begin with; see rigenv.RequireSystem.
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

// lanes are the binaries that run one after another: those that use the engine, because several criadapters on one see
// each other's pods, and beside them the others, which need the processors while those wait for the engine.
func (p testPlan) lanes() [][]testBinary {
	if p.OneLane {
		return [][]testBinary{p.Binaries}
	}
	var engine, others []testBinary
	for _, b := range p.Binaries {
		if b.Engine {
			engine = append(engine, b)
		} else {
			others = append(others, b)
		}
	}
	return [][]testBinary{engine, others}
}

// runTests runs every binary of the plan and writes the leaf tests' outcomes to the plan's results file. It returns an
// error only when it could not find out how a test went.
func runTests(ctx context.Context, env rigenv.Env, p testPlan) error {
	if p.Output == nil {
		p.Output = os.Stdout
	}
	var (
		mu    sync.Mutex
		tests []results.Test
		group errgroup.Group
	)
	one := func(binary testBinary) error {
		got, err := runAndReport(ctx, env, p, binary)
		mu.Lock()
		defer mu.Unlock()
		tests = append(tests, got...)
		return err
	}
	for _, lane := range p.lanes() {
		group.Go(func() error {
			var packages errgroup.Group
			packages.SetLimit(p.Parallel)
			for _, binary := range lane {
				packages.Go(func() error { return one(binary) })
			}
			return packages.Wait()
		})
	}
	if err := errors.Join(group.Wait(), context.Cause(ctx)); err != nil {
		return err
	}
	if p.Again {
		if err := runAgain(ctx, env, p, tests); err != nil {
			return err
		}
	}
	data, err := json.Marshal(tests)
	if err != nil {
		return err
	}
	return os.WriteFile(p.Results, data, 0o644)
}

// runAndReport is runBinary, and shows how it went.
func runAndReport(ctx context.Context, env rigenv.Env, p testPlan, binary testBinary) ([]results.Test, error) {
	began := time.Now()
	got, err := runBinary(ctx, env, p, binary)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", binary.Package, p.Label, err)
	}
	report(p.Output, binary.Package+p.Label, got, time.Since(began))
	return got, nil
}

// runAgain runs tests that failed a second time, each alone: a busy machine may keep a real engine, kernel or plugin from
// answering in time, whereas what is wrong fails again. The outcomes of those that pass change to flaky.
func runAgain(ctx context.Context, env rigenv.Env, p testPlan, tests []results.Test) error {
	again, left := results.Again(tests)
	for _, binary := range p.Binaries {
		for _, name := range again[binary.Package] {
			fmt.Fprintf(p.Output, "again, alone: %s%s %s\n", binary.Package, p.Label, name)
			p.Args = []string{"-test.timeout=" + p.Timeout.String(), "-test.run=^" + name + "$"}
			got, err := runAndReport(ctx, env, p, binary)
			if err != nil {
				return err
			}
			results.Judge(tests, binary.Package, got)
		}
	}
	if left > 0 {
		fmt.Fprintf(p.Output, "not again: %d more tests that failed%s\n", left, p.Label)
	}
	return nil
}

// killDelay is how much longer than its own time limit a test binary may run before it is killed.
const killDelay = 30 * time.Second

// runBinary runs the tests of one package: the binary's output goes through test2json, whose events are collected.
func runBinary(ctx context.Context, env rigenv.Env, p testPlan, binary testBinary) ([]results.Test, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+killDelay)
	defer cancel()
	test := exec.CommandContext(ctx, binary.Path, append([]string{"-test.v=test2json"}, p.Args...)...)
	test.Dir = binary.Dir
	// A rig that a test makes has the same engine, mode and registration.
	test.Env = append(append(withoutDocker(os.Environ()), "ENGINE="+env.Engine, "RUNTIME_MODE="+env.Mode, "REGISTRATION="+env.Registration), env.Environ()...)
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
	pkg, err := collect(events, binary.Package, p)
	exit := <-ended
	if err := errors.Join(err, convert.Wait()); err != nil {
		return nil, err
	}
	return pkg.Finish(exit), nil
}

// collect reads events to their end.
func collect(events io.Reader, name string, p testPlan) (*results.Package, error) {
	pkg := results.NewPackage(name)
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if text := pkg.Line(line); p.Verbose {
				fmt.Fprint(p.Output, text)
			}
		}
		if err == io.EOF {
			return pkg, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// withoutDocker drops what would lead a test to another engine than the one it is told.
func withoutDocker(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "DOCKER_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// report prints a line for a package, after what its failed tests wrote, in one piece, because others write as well.
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

// readResults reads what runTests wrote.
func readResults(path string) ([]results.Test, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tests []results.Test
	return tests, json.Unmarshal(data, &tests)
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
