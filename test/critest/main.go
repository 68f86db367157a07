// Command critest runs the CRI validation suite (critest, sigs.k8s.io/cri-tools) against criadapter, all of it, and
// holds the result against expected.yaml: every spec that fails or is skipped must be there with its cause.
//
//	go run ./test/critest [flags]
//
// It builds the suite with the names of public registries replaced by a registry on this machine, prints that change,
// and then runs itself inside the test rig (package test/rig), where the engine, the registry and the images are. With
// -endpoint another CRI server that runs there is examined instead, with an -expected of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/images"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// specs is the number of specs in the pinned version of the suite, benchmarks included.
	specs = 122
	// registryPort is compiled into the suite. Nothing else listens in the rig's network namespace.
	registryPort = 5000
	// insideGrace is how long the half in the rig gets to clean up after an interrupt.
	insideGrace = time.Minute
)

// options are the command line.
type options struct {
	endpoint  string
	expected  string
	reportDir string
	buildOnly bool
	cached    bool
}

func main() {
	var opts options
	flag.StringVar(&opts.endpoint, "endpoint", "", "examine the CRI server at this `address` (unix:///…) instead of starting criadapter")
	flag.StringVar(&opts.expected, "expected", "test/critest/expected.yaml", "the `file` with the specs that are expected not to pass; empty: all must pass")
	flag.StringVar(&opts.reportDir, "report", "build/critest", "the `directory` for the log and Ginkgo's reports")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build crictl and critest, and print where they are")
	flag.BoolVar(&opts.cached, "cached", false, "do nothing where critest would have to be built first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "critest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	registry, err := suiteRegistry(ctx)
	if err != nil {
		return err
	}
	if opts.cached {
		if missing, err := missing(ctx, registry); err != nil || missing != "" {
			fmt.Println("critest skipped: " + missing)
			return err
		}
	}
	critest, err := build.NewCritest(ctx, registry)
	if err != nil {
		return err
	}
	if opts.buildOnly {
		crictl, err := build.Crictl(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n%s", critest.Diff, critest.Path, crictl+"\n")
		return nil
	}
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		fmt.Println(critest.Diff)
		return rerunInRig(ctx)
	}
	return examine(ctx, env, critest.Path, opts)
}

// missing says what would have to be built first, nothing if all is there.
func missing(ctx context.Context, registry build.Registry) (string, error) {
	variant, err := engine.Named(os.Getenv("ENGINE"))
	if err != nil {
		return "", err
	}
	if has, err := variant.Cached(); err != nil || !has {
		return "the engine " + variant.Name + " is not cached, run make engines once", err
	}
	if has, err := build.CritestCached(ctx, registry); err != nil || !has {
		return "it is not cached, run make critest once", err
	}
	return "", nil
}

// suiteRegistry is the rig's registry, as critest is built for it.
func suiteRegistry(ctx context.Context) (build.Registry, error) {
	cacheDir, err := cache.Dir()
	if err != nil {
		return build.Registry{}, err
	}
	catalog, err := images.Catalog(ctx, cacheDir)
	if err != nil {
		return build.Registry{}, err
	}
	digest, err := catalog[images.CritestDigestImage].Digest()
	return build.Registry{Port: registryPort, Digest: digest.String()}, err
}

// rerunInRig runs this program again, with the same arguments, inside the rig. The rig's program is built, because go
// run does not pass signals on.
func rerunInRig(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "criadapter-critest-rig-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rig := filepath.Join(dir, "rig")
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", rig, "./test/rig").CombinedOutput(); err != nil {
		return fmt.Errorf("build the rig: %w\n%s", err, output)
	}
	cmd := exec.CommandContext(ctx, rig, append([]string{"exec", self}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = insideGrace
	return cmd.Run()
}

// examine runs the suite and judges its result.
func examine(ctx context.Context, env rigenv.Env, critest string, opts options) (err error) {
	expected, err := readExpected(opts.expected)
	if err != nil {
		return err
	}
	if expected, err = expectedOn(ctx, env, expected); err != nil {
		return err
	}
	reportDir, err := filepath.Abs(opts.reportDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(reportDir, 0o755); err != nil {
		return err
	}
	server, err := startServer(ctx, env, opts.endpoint, reportDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	results, err := runSuite(ctx, suite{program: critest, endpoint: server.endpoint, registry: env.Registry, reportDir: reportDir})
	if err != nil {
		return err
	}
	verdict := report.Judge("critest", results, expected)
	fmt.Print(verdict)
	return verdict.Err(specs)
}

// expectedOn asks the rig's engine what is expected on it.
func expectedOn(ctx context.Context, env rigenv.Env, expected report.Expected) (report.Expected, error) {
	client, err := docker.Dial(docker.Options{Host: env.DockerHost})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	features, err := client.Features(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Printf("Docker Engine %s (%s), API %s, %s, cgroup v%d\n",
		features.ServerVersion, env.Engine, features.APIVersion, features.StorageDriver, features.CgroupVersion)
	return expected.On(features, report.Machine{Controllers: rigenv.Controllers(), Capabilities: rigenv.Capabilities()}), nil
}

// readExpected reads the list at path; an empty path is an empty list.
func readExpected(path string) (report.Expected, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return report.ParseExpected(text)
}
