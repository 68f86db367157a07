// Command load measures a full node: as many pods as a kubelet takes, through the real kubelet, on criadapter and on
// its peers, one after the other on one machine.
//
//	go run ./test/load [flags]
//
// -help lists the phases. Times until Ready come from the API server's time stamps, which are whole seconds; times
// until pods are gone come from the watch. The command builds the cluster's programs and cri-dockerd into the cache,
// and runs itself inside the test rig.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func main() {
	opts, err := parseOptions(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	}
	program.Main("load", func(ctx context.Context) error { return run(ctx, opts) })
}

func run(ctx context.Context, opts options) error {
	if env, err := rigenv.FromEnviron(os.Getenv); err == nil {
		return measureAll(ctx, env, opts)
	}
	if opts.cached {
		missing, err := opts.missing(ctx)
		if err != nil || program.Skipped("load", missing, "make engines and make load") {
			return err
		}
	}
	return buildAndEnter(ctx, opts)
}

// missing are the programs that would have to be built first.
func (o options) missing(ctx context.Context) ([]string, error) {
	missing, err := build.Missing(ctx)
	if err != nil {
		return nil, err
	}
	if engine, err := program.MissingEngine(); err != nil {
		return nil, err
	} else if engine != "" {
		missing = append(missing, engine)
	}
	if !slices.Contains(o.servers, single.CRIDockerd) {
		return missing, nil
	}
	if has, err := peers.HasCRIDockerd(); err != nil || has {
		return missing, err
	}
	return append(missing, single.CRIDockerd), nil
}

// buildAndEnter builds what is run, and runs this program again, with the same arguments, inside the rig.
func buildAndEnter(ctx context.Context, opts options) error {
	programs, err := build.All(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if slices.Contains(opts.servers, single.CRIDockerd) {
		if _, err := peers.CRIDockerd(ctx); err != nil {
			return err
		}
	}
	environ := func(dir string) (string, error) {
		if slices.Contains(opts.nodes, single.KubeletCore) {
			if err := programs.AddKubeletCore(ctx, dir); err != nil {
				return "", err
			}
		}
		return programs.Environ()
	}
	return machine.AgainInRig(ctx, environ, os.Args[1:]...)
}

// measureAll is the part of the command that runs inside the rig. If a server fails, the other servers are still
// measured. The result is written after each server, so that an interrupted run keeps it.
func measureAll(ctx context.Context, env rigenv.Env, opts options) error {
	programs, err := build.ClusterFromEnviron(os.Getenv)
	if err != nil {
		return err
	}
	report, err := filepath.Abs(opts.report)
	if err != nil {
		return err
	}
	all := opts.result(env)
	file := filepath.Join(report, opts.file(env))
	var failed []error
	for _, c := range opts.columns() {
		name := c.name
		fmt.Printf("%s: %d pods …\n", name, opts.pods)
		on := single.Options{Env: env, Programs: programs, Server: c.server, Node: c.node,
			MaxPods:   opts.maxPods(),
			ReportDir: filepath.Join(report, forEngine(name, env.Engine, ""))}
		one, err := measure(ctx, on, opts, func(phase string, m measured) {
			fmt.Printf("%s: %s: %s\n", name, phase, m)
		})
		if ctx.Err() != nil {
			return errors.Join(append(failed, err)...)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w; its logs are in %s", name, err, on.ReportDir))
		}
		one.Server = name
		if len(one.Phases) > 0 {
			all.Servers = append(all.Servers, one)
			if err := all.write(file); err != nil {
				return err
			}
		}
		if unfinished := one.unfinished(); c.server == single.Criadapter && len(unfinished) > 0 {
			failed = append(failed,
				fmt.Errorf("%s did not finish %s; its logs are in %s", name, strings.Join(unfinished, ", "),
					on.ReportDir))
		}
	}
	return errors.Join(failed...)
}
