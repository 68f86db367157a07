// Command run runs the tests of test/cluster inside the test rig. It builds the programs first: a control plane, a real
// kubelet and the kubelet core.
//
//	go run ./test/cluster/run [flags]
//
// The programs of Kubernetes are kept in the cache (see package test/cluster/build): the first run builds them, which
// takes about ten minutes, and later runs start at once. With -cached, the command runs no test and exits with success
// if the programs are not in the cache.
package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/program"
)

// options are the command line.
type options struct {
	cached, buildOnly bool
	run, report       string
	timeout           time.Duration
}

func main() {
	var opts options
	flag.BoolVar(&opts.cached, "cached", false, "exit without a test if the programs are not built yet")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build the programs")
	flag.StringVar(&opts.run, "run", "", "run only the steps that match this `pattern`, as go test -run")
	flag.StringVar(&opts.report, "report", "build/e2e-cluster", "the `directory` for the logs of all programs")
	flag.DurationVar(&opts.timeout, "timeout", 20*time.Minute, "time limit of the tests")
	flag.Parse()
	program.Main("e2e-cluster", func(ctx context.Context) error { return run(ctx, opts) })
}

func run(ctx context.Context, opts options) error {
	if opts.cached {
		missing, err := build.Missing(ctx)
		if err != nil || program.Skipped("e2e-cluster", missing, "make e2e-cluster") {
			return err
		}
	}
	programs, err := build.All(ctx, os.Stdout)
	if err != nil || opts.buildOnly {
		return err
	}
	if opts.report, err = filepath.Abs(opts.report); err != nil {
		return err
	}
	environ := func(kubeletCore string) (string, error) {
		programs.KubeletCore = kubeletCore
		return programs.Environ()
	}
	return machine.RunTests(ctx, "./test/cluster", environ, opts.args()...)
}

// args are the arguments of the tests. The steps mostly wait, so many run at once.
func (o options) args() []string {
	args := []string{"-test.parallel=10", "-test.timeout=" + o.timeout.String(), "-report=" + o.report}
	if o.run != "" {
		args = append(args, "-test.run="+o.run)
	}
	return args
}
