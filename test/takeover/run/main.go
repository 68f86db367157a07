// Command run runs the tests of test/takeover inside the test rig. It builds cri-dockerd first, and keeps it in the
// cache. The kubelet is the real one if the cache has it (see package test/cluster/build), else the kubelet core.
//
//	go run ./test/takeover/run [flags]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/machine"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/takeover"
)

func main() {
	run := flag.String("run", "", "run only the tests that match this `pattern`, as go test -run")
	cached := flag.Bool("cached", false, "exit without a test if cri-dockerd is not built yet")
	core := flag.Bool("kubelet-core", false, "use the kubelet core even if the cache has the real kubelet")
	flag.Parse()
	program.Main("e2e-takeover", func(ctx context.Context) error { return prepareAndRun(ctx, *run, *core, *cached) })
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
	var programs takeover.Programs
	if programs.CRIDockerd, err = peers.CRIDockerd(ctx); err != nil {
		return err
	}
	if !core {
		if programs.Kubelet, err = cachedKubelet(ctx); err != nil {
			return err
		}
	}
	environ := func(kubeletCore string) (string, error) {
		programs.KubeletCore = kubeletCore
		return programs.Environ()
	}
	args := []string{"-test.timeout=15m"}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	return machine.RunTests(ctx, "./test/takeover", environ, args...)
}

// cachedKubelet is the path of the real kubelet, empty if the cache lacks it.
func cachedKubelet(ctx context.Context) (string, error) {
	missing, err := build.Missing(ctx)
	if err != nil || len(missing) > 0 {
		return "", err
	}
	programs, err := build.All(ctx, os.Stdout)
	return programs.Kubelet, err
}
