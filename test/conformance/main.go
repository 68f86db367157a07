// Command conformance runs Kubernetes' own specs against a real kubelet on criadapter. It compares the result with
// expected.yaml, which must have every spec that fails or skips itself, with its cause.
//
//	go run ./test/conformance [flags]
//
// It builds the specs and the cluster's programs from their modules into the cache (see package test/cluster/build).
// Then it runs itself inside the test rig, on a cluster of one node (package test/cluster/single). It makes the images
// that the specs pull, and serves them from a registry on 127.0.0.1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/emulated"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// options are the command line.
type options struct {
	set, focus, server, kubelet, node string
	expected, coreExpected, report    string
	cached, buildOnly                 bool
	processes                         int
	timeout                           time.Duration
}

func main() {
	var opts options
	flag.StringVar(&opts.set, "set", setFast, "the `name` of the specs to run: "+strings.Join(setNames(), ", "))
	flag.StringVar(&opts.focus, "focus", "",
		"run only the specs whose names match this `pattern`, from the suite of the set")
	flag.StringVar(&opts.server, "server", single.Criadapter,
		"the CRI `server` to examine: "+strings.Join(single.Servers(), ", "))
	flag.StringVar(&opts.kubelet, "kubelet", build.Release, "the minor `release` of the kubelet, "+
		strings.Join(build.Releases(), ", ")+"; all other programs are of "+build.Version)
	flag.StringVar(&opts.node, "node", single.Kubelet,
		"the `kind` of kubelet that runs the pods: "+strings.Join(nodeNames(), ", "))
	flag.StringVar(&opts.expected, "expected", "test/conformance/expected.yaml",
		"the `file` with the specs that are expected not to pass")
	flag.StringVar(&opts.coreExpected, "expected-core", "test/conformance/expected-core.yaml",
		"the `file` with further specs that are expected not to pass on the kubelet core")
	flag.StringVar(&opts.report, "report", "build/conformance", "the `directory` for logs, reports and results")
	flag.BoolVar(&opts.cached, "cached", false, "exit without a run if the programs are not built yet")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build the programs")
	flag.IntVar(&opts.processes, "p", processes(), "the number of specs that run at once")
	flag.DurationVar(&opts.timeout, "timeout", time.Hour, "time limit of the specs")
	flag.Parse()
	program.Main("conformance", func(ctx context.Context) error { return run(ctx, opts) })
}

func run(ctx context.Context, opts options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if !slices.Contains(single.Servers(), opts.server) {
		return fmt.Errorf("-server %s: want one of %s", opts.server, strings.Join(single.Servers(), ", "))
	}
	if err := opts.checkNode(); err != nil {
		return err
	}
	chosen, err := opts.chosen()
	if err != nil {
		return err
	}
	if env, err := rigenv.FromEnviron(os.Getenv); err == nil {
		return examine(ctx, env, chosen, opts)
	}
	if opts.cached {
		missing, err := opts.missing(ctx, chosen)
		if err != nil {
			return err
		}
		if missing != "" {
			fmt.Println("conformance skipped: " + missing)
			return nil
		}
	}
	return buildAndEnter(ctx, chosen, opts)
}

// checkNode refuses unknown kubelets.
func (o options) checkNode() error {
	if _, err := build.KubeletVersion(o.kubelet); err != nil {
		return fmt.Errorf("-kubelet: %w", err)
	}
	if !slices.Contains(nodeNames(), o.node) {
		return fmt.Errorf("-node %s: want one of %s", o.node, strings.Join(nodeNames(), ", "))
	}
	if o.node == machineNode && o.server != single.Criadapter {
		return fmt.Errorf("-server %s does not run on the emulated machine: leave out -node %s", o.server, o.node)
	}
	if o.node == single.KubeletCore && o.kubelet != build.Release {
		return fmt.Errorf("-kubelet %s is a release of the real kubelet: omit it with -node %s", o.kubelet, o.node)
	}
	return nil
}

// chosen is the set of specs to run.
func (o options) chosen() (set, error) {
	chosen, err := setNamed(o.set)
	if err == nil && chosen.kubelet != "" && o.node == single.KubeletCore {
		err = fmt.Errorf("-set %s tests a setting of the real kubelet: leave out -node %s", o.set, o.node)
	}
	if err == nil && chosen.node && o.node == machineNode {
		err = fmt.Errorf("the specs of -set %s call the CRI server, which is inside the machine: leave out -node %s",
			o.set, o.node)
	}
	if o.focus != "" {
		chosen = set{name: "focus", focus: o.focus, node: chosen.node, kubelet: chosen.kubelet}
	}
	return chosen, err
}

// missing names the programs that must be built first. It is empty if the cache has all of them.
func (o options) missing(ctx context.Context, chosen set) (string, error) {
	if missing, err := program.MissingEngine(); err != nil || missing != "" {
		return missing + " is not cached, run make engines once", err
	}
	programs, err := build.MissingWithSpecs(ctx, o.kubelet, chosen.suite())
	if err != nil || len(programs) == 0 {
		return "", err
	}
	return strings.Join(programs, ", ") + " not cached, run make conformance once", nil
}

// buildAndEnter builds what the specs need and runs this program again, with the same arguments, inside the rig.
func buildAndEnter(ctx context.Context, chosen set, opts options) error {
	programs, err := build.WithSpecs(ctx, opts.kubelet, chosen.suite(), os.Stdout)
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
	environ := func(dir string) (string, error) {
		if opts.node == single.KubeletCore {
			if err := programs.AddKubeletCore(ctx, dir); err != nil {
				return "", err
			}
		}
		if opts.node == machineNode {
			programs.Share = filepath.Join(dir, "share")
			if err := emulated.FillShare(ctx, programs); err != nil {
				return "", err
			}
		}
		return programs.Environ()
	}
	return machine.AgainInRig(ctx, environ, os.Args[1:]...)
}

// reportDir makes and returns the directory of this run.
func (o options) reportDir(env rigenv.Env, chosen set) (string, error) {
	dir, err := filepath.Abs(filepath.Join(o.report, o.runName(env, chosen)))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
