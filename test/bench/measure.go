package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// bench is one run of all measurements.
type bench struct {
	env  rigenv.Env
	plan plan
	// dir holds everything but the engine of the rig.
	dir string
	// cgroup is the parent of all pods', which the rig removes at its end.
	cgroup string
	// image is what all containers run, pulled by each server; sandboxes run criadapter's built-in image everywhere.
	image string
	// networks counts the pod networks of the peers.
	networks int

	adapter    *adapter.Server
	engineLink string
	servers    []*criServer // criadapter first
	crowd      *crowd       // criadapter's pods
	result     result
}

// plan says how much is sampled.
type plan struct {
	cycles, relists, statuses, stats, storms int
	// slow bounds the time for the samples of one figure of one server.
	slow time.Duration
}

func planFor(opts options) plan {
	if opts.quick {
		return plan{cycles: 8, relists: 60, statuses: 60, stats: 1, storms: 1, slow: time.Second}
	}
	return plan{cycles: 40, relists: 300, statuses: 300, stats: 3, storms: 3, slow: 20 * time.Second}
}

// measure does all measurements, prints the figures and writes them to opts.jsonFile.
func measure(ctx context.Context, env rigenv.Env, opts options) (err error) {
	b := &bench{
		env:    env,
		plan:   planFor(opts),
		cgroup: "/" + filepath.Base(filepath.Dir(env.WorkDir)) + "/bench",
		image:  env.Image("test/busybox:latest"),
		result: result{Lives: &table{}, Storms: &table{}, InProcess: &table{}},
	}
	if b.dir, err = os.MkdirTemp(env.WorkDir, "b"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(context.WithoutCancel(ctx))) }()
	if err := b.start(ctx, opts); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"lists in process", b.measureInProcess},
		{"the life of a pod", b.measureLives},
		{"many pods", b.measureMany},
		{"engine calls of a relist", b.measureEngineCalls},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", step.what, time.Since(began).Round(time.Second))
	}
	b.judge()
	if err := b.result.print(os.Stdout); err != nil {
		return err
	}
	return b.result.write(opts.jsonFile)
}

// start starts all servers and gives them the image.
func (b *bench) start(ctx context.Context, opts options) error {
	for _, start := range []func() (*criServer, error){
		func() (*criServer, error) { return b.startCriadapter(ctx) },
		func() (*criServer, error) { return b.startContainerd(ctx) },
		func() (*criServer, error) { return b.startCRIDockerd(ctx, opts.criDockerd) },
	} {
		s, err := start()
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
		if err := s.pull(ctx, b.image); err != nil {
			return err
		}
	}
	return nil
}

// close ends the servers. What is left of the peers' pods ends with the rig's namespaces, as do the files in its scratch
// folder.
func (b *bench) close(ctx context.Context) error {
	var errs []error
	for _, s := range slices.Backward(b.servers) {
		errs = append(errs, s.conn.Close(), s.stop(ctx))
	}
	return errors.Join(errs...)
}

// turns calls f for each of n members in turn, rounds times, in another order each time: what one leaves behind must not
// always meet the same one.
func turns(rounds, n int, f func(round, member int) error) error {
	random := rand.New(rand.NewPCG(1, 2)) // the same orders in each run
	for round := range rounds {
		for _, member := range random.Perm(n) {
			if err := f(round, member); err != nil {
				return err
			}
		}
	}
	return nil
}
