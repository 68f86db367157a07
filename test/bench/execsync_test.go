package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkExecSync compares ExecSync over the CRI socket with the engine calls that it is made of (create exec, attach,
// read to the end, inspect), in the same container.
func BenchmarkExecSync(b *testing.B) {
	bench := newBench(b)
	ctx := b.Context()
	s, err := bench.startCriadapter(ctx)
	s = bench.started(b, s, err)
	p, err := s.up(ctx, "execsync", noClock)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.down(context.WithoutCancel(ctx), p, noClock); err != nil {
			b.Error(err)
		}
	}()
	raw, err := bench.newRaw(nameRawBest, true)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.engine.Close()

	id := p.containers[0]
	all := alternate(b,
		func() (time.Duration, error) { return timed(func() error { return s.execTrue(ctx, id) }) },
		func() (time.Duration, error) { return timed(func() error { return raw.exec(ctx, id) }) })
	ours, theirs := all[0], all[1]
	b.ReportMetric(milliseconds(ours.quantile(0.5)), "ms/ExecSync-p50")
	b.ReportMetric(milliseconds(theirs.quantile(0.5)), "ms/raw-p50")
	report(b, "execsync-to-raw-p50", float64(ours.quantile(0.5))/float64(theirs.quantile(0.5)), 1.10)
	report(b, "execsync-to-raw-pairs", ours.ratio(theirs), 1.10)
}

func (s *criServer) execTrue(ctx context.Context, id string) error {
	response, err := s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"true"}})
	if err == nil && response.GetExitCode() != 0 {
		err = fmt.Errorf("exit code %d", response.GetExitCode())
	}
	return err
}
