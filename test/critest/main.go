// Command critest runs the whole CRI validation suite (critest, sigs.k8s.io/cri-tools) against criadapter. It compares
// the result with expected.yaml, which must have every spec that fails or is skipped, with its cause.
//
//	go run ./test/critest [flags]
//
// It builds the suite with a registry on this machine instead of the public registries, and prints that change. Then it
// runs itself inside the test rig (package test/rig), which has the engine, the registry and the images. With -endpoint
// it tests another CRI server that already runs. -expected then names the list for that server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/critest/registry"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// specs is the number of specs in the pinned version of the suite, benchmarks included.
	specs = 122
	// gvisorExpected has the specs that are not expected to pass with gVisor.
	gvisorExpected = "test/critest/expected-gvisor.yaml"
	// gvisorHandler is the name of gVisor's runtime handler.
	gvisorHandler = "gvisor"
)

// options are the command line.
type options struct {
	endpoint  string
	expected  string
	gvisor    bool
	reportDir string
	buildOnly bool
	cached    bool
}

func main() {
	var opts options
	flag.StringVar(&opts.endpoint, "endpoint", "",
		"test the CRI server at this `address` (unix:///…) instead of starting criadapter")
	flag.StringVar(&opts.expected, "expected", "test/critest/expected.yaml",
		"the `file` with the specs that are expected not to pass; empty: all must pass")
	flag.BoolVar(&opts.gvisor, "gvisor", false,
		"run the suite's pods with gVisor's runsc, on an engine of its own, and expect "+gvisorExpected+" as well")
	flag.StringVar(&opts.reportDir, "report", "build/critest", "the `directory` for the log and Ginkgo's reports")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build crictl and critest, and print their paths")
	flag.BoolVar(&opts.cached, "cached", false, "exit without a run if critest is not built yet")
	flag.Parse()
	program.Main("critest", func(ctx context.Context) error { return run(ctx, opts) })
}

func run(ctx context.Context, opts options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if opts.cached {
		missing, err := missing(ctx)
		if err != nil {
			return err
		}
		if missing != "" {
			fmt.Println("critest skipped: " + missing)
			return nil
		}
	}
	critest, err := registry.Critest(ctx)
	if err != nil {
		return err
	}
	if opts.buildOnly {
		crictl, err := build.Crictl(ctx, runtime.GOARCH)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n%s", critest.Diff, critest.Path, crictl+"\n")
		return nil
	}
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		fmt.Println(critest.Diff)
		return program.Again(ctx, nil, os.Args[1:]...)
	}
	return examine(ctx, env, critest.Path, opts)
}

// missing names the programs that must be built first. It is empty if the cache has all of them.
func missing(ctx context.Context) (string, error) {
	engine, err := program.MissingEngine()
	if err != nil {
		return "", err
	}
	if engine != "" {
		return engine + " is not cached, run make engines once", nil
	}
	if has, err := registry.CritestCached(ctx); err != nil || has {
		return "", err
	}
	return "critest is not cached, run make critest once", nil
}

// examine runs the suite and judges its result.
func examine(ctx context.Context, env rigenv.Env, critest string, opts options) (err error) {
	var lists []string
	if opts.expected != "" {
		lists = []string{opts.expected}
	}
	if opts.gvisor && opts.expected != "" {
		lists = append(lists, gvisorExpected)
	}
	expected, err := report.ReadExpected(lists...)
	if err != nil {
		return err
	}
	expected, features, err := expected.OnRig(ctx, env)
	if err != nil {
		return err
	}
	fmt.Printf("Docker Engine %s (%s), API %s, %s, cgroup v%d\n",
		features.ServerVersion, env.Engine, features.APIVersion, features.StorageDriver, features.CgroupVersion)
	reportDir, err := filepath.Abs(opts.reportDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(reportDir, 0o755); err != nil {
		return err
	}
	handler := ""
	if opts.gvisor {
		gvisor, startErr := startGVisor(ctx, env)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, gvisor.Close(context.WithoutCancel(ctx))) }()
		env, handler = gvisor.Use(env), gvisorHandler
	}
	server, err := startServer(ctx, env, opts.endpoint, reportDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	results, err := runSuite(ctx,
		suite{program: critest, endpoint: server.endpoint, registry: env.Registry, reportDir: reportDir,
			handler: handler})
	if err != nil {
		return err
	}
	verdict := report.Judge("critest", results, expected)
	fmt.Print(verdict)
	return verdict.Err(specs)
}
