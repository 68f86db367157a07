// Command rig gives tests and programs a Docker Engine of their own. It makes network, mount and PID namespaces, and
// starts in them a private dockerd and a registry with images made on this machine. It runs tests or a command there,
// and removes everything afterwards. Nothing inside reaches the installed engine, its containers or the machine's
// network. When the rig is killed, the kernel ends the namespaces with all their processes.
//
// Usage:
//
//	rig test [flags] [packages]   compiles and runs tests, and counts them
//	rig exec command [args]       runs one command inside; its exit code is the rig's
//	rig up                        keeps the rig running until interrupted, and says how to get in
//	rig engines                   builds the engines that are not installed
//
// The environment variable ENGINE names the engine, see package test/rig/engine. Without ENGINE, the rig takes the
// installed one. `rig test` accepts several engines, separated by commas. For each engine several rigs run beside each
// other, because tests mostly wait. A rig runs the tests of one package at a time, and takes the next package from a
// list that the rigs share. RUNTIME_MODE is rigenv.Env.Mode, and REGISTRATION is rigenv.Env.Registration. Each has one
// value for all engines, or one for each, separated by commas.
//
// The rig builds and downloads everything before it enters the namespaces, which have no network. Before it compiles
// for minutes, it fetches missing programs, or fails if it cannot. Package rigenv describes what tests and commands
// find inside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	engines "github.com/criadapter/criadapter/test/rig/engine/build"
)

const usage = `usage:
  rig test [flags] [packages]   compile and run tests (flags: rig test -h)
  rig exec command [args]       run one command inside the rig
  rig up                        keep the rig running until interrupted
  rig engines                   build the engines that are not installed
ENGINE=name names the engine. RUNTIME_MODE=oci or container is the kind of pods that its servers make.
REGISTRATION=shim or daemon.json is how the engine finds the OCI runtime`

func main() {
	if len(os.Args) > 1 {
		// The two halves of the rig that run in the namespaces; see namespace.go.
		switch os.Args[1] {
		case commandInit:
			os.Exit(initMain(os.Args[2:]))
		case commandInside:
			os.Exit(insideMain(os.Args[2:]))
		}
	}
	if signal.Ignored(syscall.SIGHUP) {
		// nohup makes this process ignore SIGHUP, and its children would do so, too. A handler prevents that: terminal
		// sessions in containers must end by SIGHUP.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New(usage)
	}
	command, args := args[0], args[1:]
	if command == "test" {
		return runTestCommand(ctx, args)
	}
	target, err := namedTarget()
	if err != nil {
		return 2, err
	}
	switch command {
	case "exec":
		if len(args) == 0 {
			return 2, errors.New("exec: which command?")
		}
		return insideCommand(ctx, target, plan{Command: args})
	case "up":
		return insideCommand(ctx, target, plan{})
	case "engines":
		return 0, buildEngines(ctx)
	}
	return 2, fmt.Errorf("unknown command %q\n%s", command, usage)
}

// runTestCommand executes `rig test`, which alone takes several engines.
func runTestCommand(ctx context.Context, args []string) (int, error) {
	targets, err := namedTargets()
	if err != nil {
		return 2, err
	}
	opts, err := parseTestFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 2, err
	}
	if opts.bench != "" && len(targets) > 1 {
		return 2, errors.New("benchmarks run on one engine at a time")
	}
	return testCommand(ctx, targets, opts)
}

// buildEngines builds the engines that the cache lacks.
func buildEngines(ctx context.Context) error {
	for _, release := range []engines.Release{engines.Newest(), engines.Between()} {
		dir, err := release.Build(ctx, os.Stdout)
		if err != nil {
			return err
		}
		fmt.Println(dir)
	}
	return nil
}

// insideCommand makes a rig for a plan without tests. It returns the exit code of the plan's command.
func insideCommand(ctx context.Context, on target, p plan) (code int, err error) {
	s, err := newScratch()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := ready(ctx, false); err != nil {
		return 1, err
	}
	if p.Env, err = describe(ctx, s, on); err != nil {
		return 1, err
	}
	if p.Env.Criadapter, err = buildCriadapter(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "rig: going on without criadapter: %v\n", err)
	}
	if err := prepare(ctx, s, &p); err != nil {
		return 1, err
	}
	return enter(ctx, s, p, nil)
}

// testOptions are the flags of `rig test`.
type testOptions struct {
	packages []string
	half     string // private, system, or empty for both
	cached   bool   // leave out engines, see reduce
	run      string
	bench    string
	// benchTime is go test's -benchtime. It is a count, because single operations take long and ratios need pairs.
	benchTime string
	count     int
	parallel  int // packages at once; 0 means atOnce()
	timeout   time.Duration
	noRace    bool
	verbose   bool
}

func parseTestFlags(args []string) (testOptions, error) {
	o := testOptions{half: os.Getenv("HALF")}
	flags := flag.NewFlagSet("rig test", flag.ContinueOnError)
	flags.StringVar(&o.run, "run", "", "run only tests that match this `pattern`, as go test -run")
	flags.StringVar(&o.bench, "bench", "", "run benchmarks that match this `pattern`, and no tests; implies -v, "+
		"-norace and -p 1")
	flags.StringVar(&o.benchTime, "benchtime", "20x", "how long or how often a benchmark runs, as go test -benchtime")
	flags.IntVar(&o.count, "count", 1, "run every test that many times")
	flags.IntVar(&o.parallel, "p", 0, "run that many packages at once, each on an engine of its own; 0: by processors")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time limit of one package")
	flags.BoolVar(&o.cached, "cached", false, "leave out engines that are not in the cache, and, on a "+
		"slow machine, others than the installed one")
	flags.BoolVar(&o.noRace, "norace", false, "compile without the race detector")
	flags.BoolVar(&o.verbose, "v", false, "show the output of every test")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.packages = flags.Args(); len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	if o.parallel < 0 || o.count < 1 {
		return o, errors.New("-count must be at least 1, and -p must not be negative")
	}
	switch o.half {
	case "", "private", "system":
	default:
		return o, fmt.Errorf("HALF=%s: want private, system or nothing for both", o.half)
	}
	if o.bench != "" {
		o.verbose, o.noRace, o.parallel = true, true, 1
	}
	return o, nil
}

// atOnce is the number of packages that run at once on each target. Tests mostly wait, for containers and their grace
// periods: two packages for each processor keep it busy. On a slow machine, one does.
func (o testOptions) atOnce(targets int, slow bool) int {
	if o.parallel > 0 {
		return o.parallel
	}
	each := 2
	if slow {
		each = 1
	}
	return max(1, each*runtime.NumCPU()/targets)
}

// complete says whether the run has all tests of an engine.
func (o testOptions) complete() bool {
	return o.half == "" && o.run == "" && o.bench == "" && len(o.packages) == 1 && o.packages[0] == "./..."
}

// private says whether the run includes the tests on an engine of their own.
func (o testOptions) private() bool { return o.half != "system" }

// system says whether the run includes the tests on the installed engine. A -run pattern excludes them unless it begins
// with TestSystem, because other tests cannot run on that engine.
func (o testOptions) system() bool {
	named := strings.HasPrefix(strings.TrimPrefix(o.run, "^"), strings.TrimPrefix(systemTests, "^"))
	return o.half != "private" && o.bench == "" && (o.run == "" || named)
}
