// Command soak runs a cluster's workload on a node with faults, in an order that a seed repeats. It compares the API
// server's statuses with the containers that ran.
//
//	go run ./test/soak [flags]
//
// The node is the real kubelet on criadapter, with an engine of its own. Deployments, Jobs and short pods come and go.
// Meanwhile criadapter, the engine or the kubelet is killed, CNI plugins go wrong, or a disk is full. A cron job prunes
// the engine, criadapter lacks descriptors or memory, or the mount of a volume hangs. After each fault the command
// waits until nothing is under way, and compares by the rules of package test/soak/history. In the end it deletes
// everything and counts what is left. It builds the cluster's programs into the cache, and runs itself inside the rig.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/badplugins"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// options are the command line.
type options struct {
	hours  float64
	seed   uint64
	report string
	cached bool
}

func main() {
	badplugins.ActAsPlugin()
	var opts options
	flag.Float64Var(&opts.hours, "hours", 0.5, "make faults for this many `hours`, such as 0.5")
	flag.Uint64Var(&opts.seed, "seed", 0,
		"the `number` that decides faults and changes of the workload; 0: another one in each run")
	flag.StringVar(&opts.report, "report", "build/soak", "the `directory` for logs")
	flag.BoolVar(&opts.cached, "cached", false, "exit without a run if the programs are not built yet")
	flag.Parse()
	program.Main("soak", func(ctx context.Context) error { return run(ctx, opts) })
}

// longest is the largest allowed number of hours. A larger number is more likely a typing error.
const longest = 24 * 7

func run(ctx context.Context, opts options) error {
	if math.IsNaN(opts.hours) || opts.hours <= 0 || opts.hours > longest {
		return fmt.Errorf("-hours %v: want more than 0 and at most %d", opts.hours, longest)
	}
	if env, err := rigenv.FromEnviron(os.Getenv); err == nil {
		return soak(ctx, env, opts)
	}
	if opts.cached {
		missing, err := build.Missing(ctx)
		if err != nil || program.Skipped("soak", missing, "make soak") {
			return err
		}
	}
	if opts.seed == 0 {
		opts.seed = uint64(time.Now().Unix())
	}
	return buildAndEnter(ctx, opts)
}

// buildAndEnter builds what is run, and runs this program again inside the rig.
func buildAndEnter(ctx context.Context, opts options) error {
	programs, err := build.All(ctx, os.Stdout)
	if err != nil {
		return err
	}
	report, err := filepath.Abs(opts.report)
	if err != nil {
		return err
	}
	environ := func(string) (string, error) { return programs.Environ() }
	return machine.AgainInRig(ctx, environ, "-hours", fmt.Sprint(opts.hours), "-seed",
		strconv.FormatUint(opts.seed, 10), "-report", report)
}
