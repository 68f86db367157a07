package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// options are the command line.
type options struct {
	// quick takes fewer samples; the goals are the same.
	quick bool
	// jsonFile is the file for all figures but the suites'. Empty means the default file of the engine, see resultFile.
	jsonFile string
	// parts is a comma-separated list of the parts to measure. Empty means all but the long ones, see namedParts.
	parts string
	// criDockerd is the program to measure under that name.
	criDockerd string
}

func main() {
	var opts options
	flag.BoolVar(&opts.quick, "quick", false, "take fewer samples, for a run of less than three minutes")
	flag.StringVar(&opts.jsonFile, "json", "",
		"the `file` for all figures but the suites'; empty: result.json in build/bench, scale.json for scale alone, "+
			"result-NAME.json for another engine")
	flag.StringVar(&opts.parts, "parts", "",
		"the parts to measure, a comma-separated `list` of "+partNames()+
			"; empty: all but stress, critest and scale, which take long")
	flag.StringVar(&opts.criDockerd, "cri-dockerd", "", "the `program` to measure as cri-dockerd; empty: build it")
	flag.Parse()
	program.Main("bench", func(ctx context.Context) error { return run(ctx, opts) })
}

func run(ctx context.Context, opts options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	some, err := chosen(opts.parts)
	if err != nil {
		return err
	}
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		return rerunInRig(ctx, opts, some)
	}
	return measure(ctx, env, opts)
}

// rerunInRig builds what needs the Go module proxy and runs this program again inside the rig.
func rerunInRig(ctx context.Context, opts options, some []part) error {
	for _, p := range some {
		if !p.isSuite() {
			continue
		}
		if err := p.build(ctx); err != nil {
			return err
		}
	}
	if opts.criDockerd == "" {
		var err error
		if opts.criDockerd, err = peers.CRIDockerd(ctx); err != nil {
			return err
		}
	}
	return program.Again(ctx, nil,
		fmt.Sprintf("-quick=%t", opts.quick), "-json", opts.jsonFile, "-parts", opts.parts, "-cri-dockerd",
		opts.criDockerd)
}
