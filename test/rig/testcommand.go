package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// testCommand compiles the tests and runs them for all targets at once, with separate engines. It prints the verdict on
// each target and returns the exit code.
func testCommand(ctx context.Context, targets []target, opts testOptions) (code int, err error) {
	slow, err := slowMachine(ctx, os.Stdout)
	if err != nil {
		return 1, err
	}
	if opts.cached {
		if targets, err = reduce(os.Stdout, targets, slow); err != nil || len(targets) == 0 {
			return 0, err
		}
	}
	if err := ready(ctx, !opts.noRace); err != nil {
		return 1, err
	}
	root, err := gomod.Root(ctx)
	if err != nil {
		return 1, err
	}
	skips, err := readSkips(root)
	if err != nil {
		return 1, err
	}
	var legs []*leg
	defer func() {
		for _, l := range legs {
			err = errors.Join(err, l.scratch.remove())
		}
	}()
	for _, t := range targets {
		s, err := newScratch()
		if err != nil {
			return 1, err
		}
		legs = append(legs, &leg{
			target: t, scratch: s, several: len(targets) > 1, slow: slow, beside: opts.atOnce(len(targets), slow),
		})
	}
	linked, err := binariesDir(opts)
	if err != nil {
		return 1, err
	}
	if err := furnishLegs(ctx, legs, linked, opts); err != nil {
		return 1, err
	}
	var running errgroup.Group
	for _, l := range legs {
		running.Go(func() error { return l.run(ctx, opts) })
	}
	if err := running.Wait(); err != nil {
		return 1, err
	}
	for _, l := range legs {
		if err := l.runSecond(); err != nil {
			return 1, err
		}
	}
	for _, l := range legs {
		code = max(code, l.verdict(os.Stdout, skips, opts))
		if code == 0 && opts.complete() && l.installed() {
			err = recordDurations(linked, l.tests)
		}
	}
	return code, err
}

// slowMachine says whether the machine is slow. If it is, slowMachine prints a line about it.
func slowMachine(ctx context.Context, w io.Writer) (bool, error) {
	start, err := speed.StartTime(ctx)
	slow := err == nil && start >= speed.Slow
	if slow {
		fmt.Fprintf(w, "this machine is slow: a program's start takes %v, so fewer packages run at once\n",
			start.Round(time.Millisecond))
	}
	return slow, err
}

// reduce leaves out the engines that would have to be built. On a slow machine, the tests of several engines take too
// long. So it also leaves out all engines but the installed one there, if the installed one is among the targets. It
// prints each engine that it leaves out.
func reduce(w io.Writer, targets []target, slow bool) ([]target, error) {
	slow = slow && slices.ContainsFunc(targets, target.installed)
	var rest []target
	for _, v := range targets {
		if slow && !v.installed() {
			fmt.Fprintf(w, "tests on %s skipped: this machine is slow\n", v.Name)
			continue
		}
		has, err := v.Cached()
		if err != nil {
			return nil, err
		}
		if !has {
			fmt.Fprintf(w, "tests on %s skipped: it is not cached, run make engines once\n", v.Name)
			continue
		}
		rest = append(rest, v)
	}
	return rest, nil
}

// withoutControllers takes out the tests that were skipped because this engine lacks their cgroup controllers. It
// prints the number of these tests.
func withoutControllers(w io.Writer, tests []results.Test) []results.Test {
	rest := slices.DeleteFunc(slices.Clone(tests), func(t results.Test) bool {
		return t.Outcome == results.Skip && rigenv.LackedControllers(t.Output)
	})
	if n := len(tests) - len(rest); n > 0 {
		fmt.Fprintf(w, "\n%d tests left out: this engine lacks their cgroup controllers\n", n)
	}
	return rest
}

func newTestPlan(ctx context.Context, opts testOptions, kind rigenv.Kind) (testPlan, error) {
	// -n prints the path of the program, after compiling it if necessary.
	test2json, err := gomod.Command(ctx, "", nil, "tool", "-n", "test2json")
	return testPlan{
		Args:      opts.args(kind),
		Test2JSON: strings.TrimSpace(string(test2json)),
		Timeout:   opts.timeout,
		Verbose:   opts.verbose,
	}, err
}

// shownLongest is how many of the longest tests of a whole run are shown.
const shownLongest = 20

// verdict prints failed and flaky tests, skipped tests that skips does not list, and as the last line the count. If
// everything ran, it also prints the longest tests, and the listed tests that were not skipped. It returns the exit
// code.
func verdict(w io.Writer, tests []results.Test, skips *results.Skips, everything, slow bool) int {
	count := results.CountOf(tests)
	code := 0
	complain := func(format string, args ...any) {
		code = 1
		fmt.Fprintf(w, format, args...)
	}
	fmt.Fprintln(w)
	for _, t := range tests {
		switch {
		case t.Outcome == results.Fail && t.Twice:
			complain("failed among the others, and alone: %s\n%s", t, t.Failures())
		case t.Outcome == results.Fail:
			complain("failed: %s\n%s", t, t.Failures())
		case t.Outcome == results.Flaky:
			fmt.Fprintf(w, "failed among the others, and passed alone: %s\n%s", t, t.Failures())
		}
	}
	if count.TooFlaky(slow) {
		complain("%d tests passed only when run alone, more than fail by chance\n", count.Flaky)
	}
	for _, t := range skips.Unlisted(tests) {
		complain("skipped, and not in test/rig/skips.txt: %s\n%s\n", t, strings.TrimRight(t.Output, "\n"))
	}
	if everything {
		for _, t := range results.Longest(tests, shownLongest) {
			fmt.Fprintf(w, "%6.1fs  %s\n", t.Seconds, t)
		}
		for _, key := range skips.Stale(tests) {
			fmt.Fprintf(w, "in test/rig/skips.txt, but not skipped: %s\n", key)
			if os.Getenv("CI") == "true" {
				code = 1
			}
		}
	}
	if count.Passed == 0 {
		complain("no test passed\n")
	}
	fmt.Fprintln(w, count)
	return code
}

// verdictOfBenchmarks is verdict for a run of benchmarks alone.
func verdictOfBenchmarks(w io.Writer, tests []results.Test) int {
	count := results.CountOf(tests)
	if count.Passed == 0 {
		fmt.Fprintln(w, "no benchmark ran")
	}
	if count.Failed > 0 || count.Passed == 0 {
		return 1
	}
	return 0
}
