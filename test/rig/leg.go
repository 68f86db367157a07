package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/test/rig/installed"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// leg is a run of the tests on one engine. Legs run beside each other, because each has its own scratch directory. The
// rigs of a leg have their own namespaces and control groups.
type leg struct {
	target
	several  bool // there are other legs
	slow     bool // the machine is
	beside   int  // packages at once
	scratch  *scratch
	env      rigenv.Env
	binaries []testBinary

	mu     sync.Mutex // guards the fields below while both halves run
	tests  []results.Test
	second []func() error // second runs of failed tests
}

// suffix names the leg in its lines, if there are several.
func (l *leg) suffix() string {
	if !l.several {
		return ""
	}
	return " on " + l.label()
}

// furnishLegs prepares what each leg needs. It compiles the tests and the server once for all legs. The linked tests
// stay in the directory linked. Packages that do not compile fail in the first leg.
func furnishLegs(ctx context.Context, legs []*leg, linked string, opts testOptions) error {
	packages, err := listPackages(ctx, opts.packages, lastDurations(linked))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(legs, (*leg).installed) {
		packages = slices.DeleteFunc(packages, func(p goPackage) bool { return !p.usesRig() })
	} else if opts.system() {
		if err := readyEngine(ctx, packages); err != nil {
			return err
		}
	}
	for _, l := range legs {
		if l.env, err = describe(ctx, l.scratch, l.target); err != nil {
			return err
		}
	}
	first := legs[0]
	binaries, failed, err := compile(ctx, linked, first.scratch.dir, packages, opts)
	if err != nil {
		return err
	}
	for _, l := range legs {
		l.binaries = slices.DeleteFunc(slices.Clone(binaries),
			func(b testBinary) bool { return !b.Engine && !l.installed() })
	}
	criadapter, err := buildCriadapter(ctx, first.scratch)
	if err != nil {
		failed = append(failed, results.Test{Package: "build/criadapter", Outcome: results.Fail, Output: err.Error()})
	}
	for _, l := range legs {
		l.env.Criadapter = criadapter
	}
	for _, t := range failed {
		fmt.Printf("--- %s\n%s\n", t, strings.TrimRight(t.Output, "\n"))
	}
	first.tests = failed
	return nil
}

// run runs the leg's tests. The tests on the installed engine run beside the tests in namespaces, which mostly wait. On
// a slow machine, or with -p, the tests in namespaces run first.
func (l *leg) run(ctx context.Context, opts testOptions) error {
	var halves errgroup.Group
	if l.slow || opts.parallel > 0 {
		halves.SetLimit(1)
	}
	if opts.private() && len(l.binaries) > 0 {
		halves.Go(func() error { return l.runPrivate(ctx, opts) })
	}
	if opts.system() && l.installed() {
		halves.Go(func() error { return l.runSystem(ctx, opts) })
	}
	return halves.Wait()
}

// runPrivate runs the tests in namespaces with an engine of their own.
func (l *leg) runPrivate(ctx context.Context, opts testOptions) error {
	tests, err := newTestPlan(ctx, opts, rigenv.KindPrivate)
	if err != nil {
		return err
	}
	tests.Binaries, tests.Label = l.binaries, l.suffix()
	p := plan{Env: l.env, Tests: &tests}
	if err := prepare(ctx, l.scratch, &p); err != nil {
		return err
	}
	return l.runFirst(tests, opts, func(tests testPlan, beside int) ([]results.Test, error) {
		p.Tests = &tests
		return runBeside(ctx, p, beside)
	})
}

// runPlan runs a plan's tests and returns their outcomes. beside is the number of packages that run at once.
type runPlan func(tests testPlan, beside int) ([]results.Test, error)

// runFirst runs a plan's tests with run, and adds their outcomes to the leg's. In a run of everything it also prepares
// runSecond.
func (l *leg) runFirst(tests testPlan, opts testOptions, run runPlan) error {
	got, err := run(tests, l.beside)
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.tests)
	l.tests = append(l.tests, got...)
	if err != nil || !opts.complete() {
		return err
	}
	l.second = append(l.second, func() error {
		again := tests.secondRun(os.Stdout, got)
		if len(again.Binaries) == 0 {
			return nil
		}
		now, err := run(again, 1)
		results.Judge(l.tests[from:from+len(got)], now)
		return err
	})
	return nil
}

// runSecond runs the tests that failed a second time, one after another. Call it when the first runs of all legs have
// ended, so that nothing runs beside these tests.
func (l *leg) runSecond() error {
	for _, run := range l.second {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

// runBeside makes n rigs for a plan of tests. The rigs run beside each other, because tests mostly wait. Each rig runs
// one package of the plan at a time.
func runBeside(ctx context.Context, p plan, n int) ([]results.Test, error) {
	queue, err := newQueue(len(p.Tests.Binaries))
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	var (
		group errgroup.Group
		mu    sync.Mutex
		tests []results.Test
	)
	for range min(n, len(p.Tests.Binaries)) {
		group.Go(func() error {
			got, err := runInRig(ctx, p, queue)
			mu.Lock()
			defer mu.Unlock()
			tests = append(tests, got...)
			return err
		})
	}
	err = group.Wait()
	return tests, err
}

// runInRig makes a rig and takes numbers of test binaries from the queue. It runs these binaries in the rig, one after
// another, and returns the tests' outcomes.
func runInRig(ctx context.Context, p plan, queue *os.File) (tests []results.Test, err error) {
	s, err := newScratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	p.Env.WorkDir, p.Cgroup = s.workDir(), "/"+s.cgroup()
	code, err := enter(ctx, s, p, queue)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("the rig inside ended with exit code %d", code)
	}
	return readResults(s.dir)
}

// runSystem runs the tests for the machine's own engine, if there are any among the packages.
func (l *leg) runSystem(ctx context.Context, opts testOptions) error {
	tests, err := newTestPlan(ctx, opts, rigenv.KindSystem)
	if err != nil {
		return err
	}
	tests.Label = " on the machine's engine"
	tests.Binaries = slices.DeleteFunc(slices.Clone(l.binaries), func(b testBinary) bool { return !b.System })
	if len(tests.Binaries) == 0 {
		return nil
	}
	env := l.env
	env.Kind = rigenv.KindSystem
	env.DockerHost = installedHost()
	if env.DockerRoot, err = installed.DataRoot(ctx, env.DockerHost); err != nil {
		return err
	}
	return l.runFirst(tests, opts, func(tests testPlan, _ int) ([]results.Test, error) {
		return runAll(ctx, env, tests)
	})
}

// verdict prints the verdict on the leg's tests, see the functions verdict and verdictOfBenchmarks. It returns the exit
// code. With several legs, a leg without test binaries succeeds, because no package uses an engine.
func (l *leg) verdict(w io.Writer, skips *results.Skips, opts testOptions) int {
	if l.several && len(l.binaries) == 0 && len(l.tests) == 0 {
		return 0
	}
	if opts.bench != "" {
		return verdictOfBenchmarks(os.Stderr, l.tests)
	}
	tests := l.tests
	if l.CgroupV2 {
		tests = withoutControllers(w, tests)
	}
	if l.several {
		fmt.Fprintf(w, "\nOn %s:\n", l.label())
	}
	return verdict(w, tests, skips, opts.complete() && l.installed(), l.slow)
}
