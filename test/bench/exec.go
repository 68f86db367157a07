package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// execsAtOnce is the number of containers that each run a command at the same time, like the probes of a full node.
const execsAtOnce = 8

// rowExecs is the row of the commands that run at the same time.
var rowExecs = fmt.Sprintf("%s, %d containers at once", callExec, execsAtOnce)

// measureExec compares ExecSync over the CRI socket with its engine calls in the same container: create exec, attach,
// read to the end, inspect.
func (b *bench) measureExec(ctx context.Context) (err error) {
	s := b.servers[0]
	p, err := s.up(ctx, "exec", noClock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.down(context.WithoutCancel(ctx), p, noClock)) }()
	raw, err := b.newRaw(nameRawBest, true)
	if err != nil {
		return err
	}
	defer raw.engine.Close()

	id, t := p.containers[0], &b.result.Exec
	names := []string{s.name, raw.name}
	execs := []func() error{
		func() error { return s.execTrue(ctx, id) },
		func() error { return raw.exec(ctx, id) },
	}
	err = turns(1+b.plan.execs, len(execs), func(round, i int) error {
		took, err := timed(execs[i])
		if round > 0 {
			t.add(callExec, names[i], took)
		}
		return err
	})
	if err != nil {
		return err
	}
	ours, theirs := t.cells[callExec][s.name], t.cells[callExec][raw.name]
	b.result.add("execsync-p50-to-raw", float64(ours.quantile(0.5))/float64(theirs.quantile(0.5)), 1.10)
	b.result.add("execsync-pairs-to-raw", ours.ratio(theirs), 1.10)
	return nil
}

// execTrue runs a command that does nothing.
func (s *criServer) execTrue(ctx context.Context, id string) error {
	response, err := s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"true"}})
	if err == nil && response.GetExitCode() != 0 {
		err = fmt.Errorf("exit code %d", response.GetExitCode())
	}
	return err
}

// measureExecsAtOnce runs one command in each of several containers at the same time. It compares ExecSync of each
// server with the engine's calls in criadapter's containers.
func (b *bench) measureExecsAtOnce(ctx context.Context, crowds []*crowd) error {
	raw, err := b.newRaw(nameRawBest, true)
	if err != nil {
		return err
	}
	defer raw.engine.Close()
	var names []string
	var execs []func(ctx context.Context, i int) error
	for _, c := range crowds {
		names = append(names, c.name)
		execs = append(execs, func(ctx context.Context, i int) error {
			return c.execTrue(ctx, c.pods[i].containers[0])
		})
	}
	names = append(names, raw.name)
	execs = append(execs, func(ctx context.Context, i int) error {
		return raw.exec(ctx, b.crowd.pods[i].containers[0])
	})
	t := &b.result.Exec
	err = turns(1+b.plan.execs/2, len(execs), func(round, i int) error {
		took := make(samples, execsAtOnce)
		group, ctx := errgroup.WithContext(ctx)
		for n := range took {
			group.Go(func() (err error) {
				took[n], err = timed(func() error { return execs[i](ctx, n) })
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("%s of %s: %w", rowExecs, names[i], err)
		}
		if round > 0 {
			for _, sample := range took {
				t.add(rowExecs, names[i], sample)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.result.add("execs-at-once-to-raw", t.ratio(rowExecs, nameCriadapter, raw.name), 1.10)
	b.result.add("execs-at-once-to-cri-dockerd", t.ratio(rowExecs, nameCriadapter, nameCRIDockerd), 1.0)
	return nil
}
