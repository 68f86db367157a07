// Command run builds what the tests of test/takeover need and runs them inside the test rig: cri-dockerd, which is kept
// in the cache, and a kubelet: the real one where the cache has it (see package test/cluster/build), else the kubelet
// core.
//
//	go run ./test/takeover/run [flags]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/takeover"
)

func main() {
	run := flag.String("run", "", "run only the tests that match this `pattern`, as go test -run")
	cached := flag.Bool("cached", false, "do nothing where cri-dockerd would have to be built first")
	core := flag.Bool("kubelet-core", false, "take the kubelet core although the cache has the real kubelet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := prepareAndRun(ctx, *run, *core, *cached)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-takeover:", err)
		os.Exit(1)
	}
}

func prepareAndRun(ctx context.Context, pattern string, core, cached bool) error {
	if cached {
		has, err := peers.HasCRIDockerd()
		if err != nil {
			return err
		}
		if !has {
			fmt.Println("e2e-takeover skipped: cri-dockerd not cached, run make e2e-takeover once")
			return nil
		}
	}
	return runTests(ctx, pattern, core)
}

func runTests(ctx context.Context, pattern string, core bool) (err error) {
	dir, err := os.MkdirTemp("", "criadapter-takeover-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs := takeover.Programs{KubeletCore: filepath.Join(dir, "kubelet-core")}
	if programs.CRIDockerd, err = peers.CRIDockerd(ctx); err != nil {
		return err
	}
	if programs.Kubelet, err = cachedKubelet(ctx); err != nil {
		return err
	}
	if core {
		programs.Kubelet = ""
	}
	environ, err := programs.Environ()
	if err != nil {
		return err
	}
	args := []string{"-test.timeout=15m"}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	tests := machine.Tests{Package: "./test/takeover", KubeletCore: filepath.Join(dir, "kubelet-core"), Environ: environ, Args: args}
	return tests.Run(ctx, dir)
}

// cachedKubelet is empty where the real kubelet would have to be built.
func cachedKubelet(ctx context.Context) (string, error) {
	missing, err := build.Missing(ctx)
	if err != nil || len(missing) > 0 {
		return "", err
	}
	programs, err := build.All(ctx, os.Stdout)
	return programs.Kubelet, err
}
