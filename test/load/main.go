// Command load measures a full node: as many pods as a kubelet takes, through the real kubelet, on criadapter and on its
// peers, one after the other on one machine.
//
//	go run ./test/load [flags]
//
// For each server it brings all pods up, leaves them alone for a while, replaces some every second, and deletes all. How
// long pods take is by the API server's own time stamps, which are whole seconds, but for how long they take to go. It
// builds the cluster's programs and cri-dockerd and keeps them in the cache, and runs itself inside the test rig.
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
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// maxPods is what a kubelet takes by default; it runs no others here.
const maxPods = 110

// options are the command line.
type options struct {
	pods, churn   int
	rest, churned time.Duration
	servers       string
	report        string
	cached        bool
}

func main() {
	var opts options
	flag.IntVar(&opts.pods, "pods", 100, "how many pods of one container")
	flag.DurationVar(&opts.rest, "rest", time.Minute, "how long they are left alone")
	flag.IntVar(&opts.churn, "churn", 1, "how many are replaced each second")
	flag.DurationVar(&opts.churned, "churned", time.Minute, "how long pods are replaced")
	flag.StringVar(&opts.servers, "servers", strings.Join(single.Servers(), ","), "measure only these, a comma-separated `list`")
	flag.StringVar(&opts.report, "report", "build/load", "the `directory` for logs and the result")
	flag.BoolVar(&opts.cached, "cached", false, "do nothing where the programs would have to be built first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) error {
	if opts.pods < 1 || opts.pods > maxPods {
		return fmt.Errorf("-pods %d: want 1 to %d, which is what a kubelet takes", opts.pods, maxPods)
	}
	for _, name := range opts.names() {
		if !slices.Contains(single.Servers(), name) {
			return fmt.Errorf("-servers %s: no server is named %q, want some of %s", opts.servers, name, strings.Join(single.Servers(), ", "))
		}
	}
	if env, err := rigenv.FromEnviron(os.Getenv); err == nil {
		return measureAll(ctx, env, opts)
	}
	if opts.cached {
		missing, err := opts.missing(ctx)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			fmt.Printf("load skipped: %s not cached, run make load once\n", strings.Join(missing, ", "))
			return nil
		}
	}
	return buildAndEnter(ctx, opts)
}

// missing are the programs that would have to be built first.
func (o options) missing(ctx context.Context) ([]string, error) {
	missing, err := build.Missing(ctx)
	if err != nil || !slices.Contains(o.names(), single.CRIDockerd) {
		return missing, err
	}
	if has, err := peers.HasCRIDockerd(); err != nil || has {
		return missing, err
	}
	return append(missing, single.CRIDockerd), nil
}

// buildAndEnter builds what is run, and runs this program again, with the same arguments, inside the rig.
func buildAndEnter(ctx context.Context, opts options) (err error) {
	programs, err := build.All(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if slices.Contains(opts.names(), single.CRIDockerd) {
		if _, err := peers.CRIDockerd(ctx); err != nil {
			return err
		}
	}
	environ, err := programs.Environ()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "criadapter-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return machine.InRig(ctx, dir, environ, append([]string{self}, os.Args[1:]...)...)
}

func (o options) names() []string { return strings.Split(o.servers, ",") }

// measureAll is the half inside of the rig.
func measureAll(ctx context.Context, env rigenv.Env, opts options) error {
	programs, err := build.ClusterFromEnviron(os.Getenv)
	if err != nil {
		return err
	}
	report, err := filepath.Abs(opts.report)
	if err != nil {
		return err
	}
	all := result{Pods: opts.pods, Rest: opts.rest.Seconds(), Churn: opts.churn, Churned: opts.churned.Seconds(), Engine: env.Engine, Kubelet: build.Version}
	for _, name := range opts.names() {
		fmt.Printf("%s: %d pods …\n", name, opts.pods)
		one, err := measure(ctx, single.Options{Env: env, Programs: programs, Server: name, ReportDir: filepath.Join(report, name)}, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.Servers = append(all.Servers, one)
		fmt.Print(one)
	}
	return all.write(filepath.Join(report, "result.json"))
}
