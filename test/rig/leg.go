package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/installed"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// leg is a run of the tests on one engine. Each has a scratch directory, namespaces and control groups of its own, so
// that legs can run beside each other.
type leg struct {
	target
	several  bool // there are others
	scratch  *scratch
	env      rigenv.Env
	binaries []testBinary
	tests    []results.Test
}

// installed says whether the leg's engine is the installed one. It has the tests that use no engine, too, and those on
// the machine's own: they would say the same again on each.
func (l *leg) installed() bool { return l.Name == engine.Installed }

// suffix tells the leg's lines from those of others.
func (l *leg) suffix() string {
	if !l.several {
		return ""
	}
	return " on " + l.label()
}

// furnishLegs makes ready what each leg needs, and compiles the tests and the server, once for all legs. What does not
// compile has failed in the first leg.
func furnishLegs(ctx context.Context, legs []*leg, opts testOptions) error {
	packages, err := listPackages(ctx, opts.packages)
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
	binaries, failed, err := compile(ctx, first.scratch.dir, packages, opts)
	if err != nil {
		return err
	}
	for _, l := range legs {
		l.binaries = slices.DeleteFunc(slices.Clone(binaries), func(b testBinary) bool { return !b.Engine && !l.installed() })
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

// run runs the leg's tests.
func (l *leg) run(ctx context.Context, opts testOptions) error {
	if opts.private() && len(l.binaries) > 0 {
		if err := l.runPrivate(ctx, opts); err != nil {
			return err
		}
	}
	if opts.system() && l.installed() {
		return l.runSystem(ctx, opts)
	}
	return nil
}

// runPrivate runs the tests in namespaces with an engine of their own.
func (l *leg) runPrivate(ctx context.Context, opts testOptions) error {
	tests, err := newTestPlan(ctx, l.scratch, opts, rigenv.KindPrivate)
	if err != nil {
		return err
	}
	tests.Binaries, tests.Label = l.binaries, l.suffix()
	p := plan{Env: l.env, Tests: &tests}
	if err := prepare(ctx, l.scratch, &p); err != nil {
		return err
	}
	code, err := enter(ctx, l.scratch, p)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("the rig inside ended with exit code %d", code)
	}
	return l.collect(tests)
}

// runSystem runs the tests for the machine's own engine, if there are any among the packages.
func (l *leg) runSystem(ctx context.Context, opts testOptions) error {
	binaries := slices.DeleteFunc(slices.Clone(l.binaries), func(b testBinary) bool { return !b.System })
	if len(binaries) == 0 {
		return nil
	}
	tests, err := newTestPlan(ctx, l.scratch, opts, rigenv.KindSystem)
	if err != nil {
		return err
	}
	tests.Binaries, tests.Parallel, tests.Label = binaries, 1, " on the machine's engine"
	env := l.env
	env.Kind = rigenv.KindSystem
	env.DockerHost = installedHost()
	if env.DockerRoot, err = installed.DataRoot(ctx, env.DockerHost); err != nil {
		return err
	}
	return errors.Join(runTests(ctx, env, tests), l.collect(tests))
}

// collect adds the outcomes of a plan's tests.
func (l *leg) collect(p testPlan) error {
	got, err := readResults(p.Results)
	l.tests = append(l.tests, got...)
	return err
}

// verdict prints what is wrong with the outcomes, and the count. It returns the exit code. A leg beside others may have
// nothing to do, where no package uses an engine.
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
	return verdict(w, tests, skips, opts.everything() && l.installed())
}
