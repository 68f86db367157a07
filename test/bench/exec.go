package main

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// measureExec compares ExecSync over the CRI socket with the engine calls that it is made of (create exec, attach, read
// to the end, inspect), in the same container.
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
