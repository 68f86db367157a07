package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// newBench makes what the measurements of one Go benchmark run on. The servers that it starts are closed with it.
func newBench(tb testing.TB) *bench {
	tb.Helper()
	env := rigenv.Require(tb)
	b := &bench{
		env:    env,
		cgroup: "/" + filepath.Base(filepath.Dir(env.WorkDir)) + "/bench",
		image:  env.Image("test/busybox:latest"),
	}
	var err error
	if b.dir, err = os.MkdirTemp(env.WorkDir, "b"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the benchmark's own is over
		defer cancel()
		if err := b.close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// started takes a server that was started and gives it the image.
func (b *bench) started(tb testing.TB, s *criServer, err error) *criServer {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	b.servers = append(b.servers, s)
	if err := s.pull(tb.Context(), b.image); err != nil {
		tb.Fatal(err)
	}
	return s
}

// report prints a ratio as a line of its own and as a metric.
func report(b *testing.B, name string, value, most float64) {
	b.ReportMetric(value, name)
	fmt.Printf("ratio %s %.3f goal %.3g\n", name, value, most)
}

// alternate calls the functions in turn, another one first each time, as often as the benchmark wants, and once before
// that without looking at the time.
func alternate(b *testing.B, measure ...func() (time.Duration, error)) []samples {
	b.Helper()
	all := make([]samples, len(measure))
	round := func(i int, keep bool) {
		for j := range measure {
			k := (i + j) % len(measure)
			took, err := measure[k]()
			if err != nil {
				b.Fatal(err)
			}
			if keep {
				all[k] = append(all[k], took)
			}
		}
	}
	round(0, false)
	for i := 0; b.Loop(); i++ {
		round(i, true)
	}
	return all
}

// timed returns how long f took.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// joined calls undo and adds its error.
func joined(err *error, undo func() error) { *err = errors.Join(*err, undo()) }
