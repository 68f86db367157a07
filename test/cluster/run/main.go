// Command run builds what the tests of test/cluster need and runs them inside the test rig: a real control plane, and on
// criadapter a real kubelet and the kubelet core.
//
//	go run ./test/cluster/run [flags]
//
// The programs of Kubernetes are kept in the cache (see package test/cluster/build): a first run builds them for about ten
// minutes, later ones start at once. With -cached it does nothing, successfully, where they are not there.
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
	"strings"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// insideGrace is how long the half in the rig gets to clean up after an interrupt.
const insideGrace = time.Minute

// options are the command line.
type options struct {
	cached, buildOnly bool
	run, report       string
	timeout           time.Duration
}

func main() {
	var opts options
	flag.BoolVar(&opts.cached, "cached", false, "do nothing where the programs would have to be built first")
	flag.BoolVar(&opts.buildOnly, "build", false, "only build the programs")
	flag.StringVar(&opts.run, "run", "", "run only the steps that match this `pattern`, as go test -run")
	flag.StringVar(&opts.report, "report", "build/e2e-cluster", "the `folder` for the logs of all programs")
	flag.DurationVar(&opts.timeout, "timeout", 20*time.Minute, "time limit of the tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) (err error) {
	if opts.cached {
		missing, err := build.Missing(ctx)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			fmt.Printf("e2e-cluster skipped: %s not cached, run make e2e-cluster once\n", strings.Join(missing, ", "))
			return nil
		}
	}
	programs, err := build.All(ctx, os.Stdout)
	if err != nil || opts.buildOnly {
		return err
	}
	if opts.report, err = filepath.Abs(opts.report); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "criadapter-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rig, test := filepath.Join(dir, "rig"), filepath.Join(dir, "cluster.test")
	programs.KubeletCore = filepath.Join(dir, "kubelet-core")
	for _, args := range [][]string{
		{"build", "-o", rig, "./test/rig"},
		{"build", "-o", programs.KubeletCore, "./cmd/kubelet-core"},
		{"test", "-c", "-o", test, "./test/cluster"},
	} {
		if output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	lock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	// Before the kubelet runs, and by a process that outlives everything inside.
	restore, err := keepSysctls()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	return runTests(ctx, programs, rig, test, opts)
}

// runTests runs the tests inside the rig. The terminal's interrupt reaches only this process, which passes it on once.
func runTests(ctx context.Context, programs build.Programs, rig, test string, opts options) error {
	environ, err := programs.Environ()
	if err != nil {
		return err
	}
	// The steps mostly wait: many at once need little of the machine.
	args := []string{"exec", test, "-test.v", "-test.parallel=10", "-test.timeout=" + opts.timeout.String(), "-report=" + opts.report}
	if opts.run != "" {
		args = append(args, "-test.run="+opts.run)
	}
	cmd := exec.CommandContext(ctx, rig, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = insideGrace
	return cmd.Run()
}
