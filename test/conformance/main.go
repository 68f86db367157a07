// Command conformance runs Kubernetes' own specs against a real kubelet on criadapter, and holds the result against
// expected.yaml: every spec that fails or skips itself must be there with its cause.
//
//	go run ./test/conformance [flags]
//
// It builds the specs and the cluster's programs by module name and keeps them in the cache (see package
// test/cluster/build), and then runs itself inside the test rig, on a cluster of one node (package test/cluster/single).
// The images that the specs pull are made on this machine and come from a registry on 127.0.0.1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// options are the command line.
type options struct {
	set, focus, server, expected, report string
	cached, buildOnly                    bool
	processes                            int
	timeout                              time.Duration
}

func main() {
	var opts options
	flag.StringVar(&opts.set, "set", setFast, "the `name` of the specs to run: "+strings.Join(setNames(), ", "))
	flag.StringVar(&opts.focus, "focus", "", "run only the specs of all whose names match this `pattern`, instead of a set")
	flag.StringVar(&opts.server, "server", single.Criadapter, "the CRI `server` to examine: "+strings.Join(single.Servers(), ", "))
	flag.StringVar(&opts.expected, "expected", "test/conformance/expected.yaml", "the `file` with the specs that are expected not to pass on criadapter")
	flag.StringVar(&opts.report, "report", "build/conformance", "the `directory` for logs, reports and results")
	flag.BoolVar(&opts.cached, "cached", false, "do nothing where the programs would have to be built first")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build the programs")
	flag.IntVar(&opts.processes, "p", processes(), "run that many specs at once")
	flag.DurationVar(&opts.timeout, "timeout", time.Hour, "time limit of the specs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if !slices.Contains(single.Servers(), opts.server) {
		return fmt.Errorf("-server %s: want one of %s", opts.server, strings.Join(single.Servers(), ", "))
	}
	chosen, err := opts.chosen()
	if err != nil {
		return err
	}
	if env, err := rigenv.FromEnviron(os.Getenv); err == nil {
		return examine(ctx, env, chosen, opts)
	}
	if opts.cached {
		if missing, err := missing(ctx); err != nil || missing != "" {
			fmt.Println("conformance skipped: " + missing)
			return err
		}
	}
	return buildAndEnter(ctx, opts)
}

// chosen is the set of specs to run.
func (o options) chosen() (set, error) {
	if o.focus != "" {
		return set{name: "focus", focus: o.focus}, nil
	}
	return setNamed(o.set)
}

// missing says what would have to be built first, nothing if all is there.
func missing(ctx context.Context) (string, error) {
	variant, err := engine.Named(os.Getenv("ENGINE"))
	if err != nil {
		return "", err
	}
	if has, err := variant.Cached(); err != nil || !has {
		return "the engine " + variant.Name + " is not cached, run make engines once", err
	}
	programs, err := build.MissingWithSpecs(ctx)
	if err != nil || len(programs) == 0 {
		return "", err
	}
	return strings.Join(programs, ", ") + " not cached, run make conformance once", nil
}

// buildAndEnter builds what the specs need and runs this program again, with the same arguments, inside the rig.
func buildAndEnter(ctx context.Context, opts options) (err error) {
	programs, err := build.WithSpecs(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if _, err := specImages(ctx, programs); err != nil {
		return err
	}
	if opts.server == single.CRIDockerd {
		if _, err := peers.CRIDockerd(ctx); err != nil {
			return err
		}
	}
	if opts.buildOnly {
		return nil
	}
	environ, err := programs.Environ()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "criadapter-conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return machine.InRig(ctx, dir, environ, append([]string{self}, os.Args[1:]...)...)
}

// reportDir makes and returns the directory of a run's own.
func (o options) reportDir(env rigenv.Env, chosen set) (string, error) {
	dir, err := filepath.Abs(filepath.Join(o.report, o.runName(env, chosen)))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
