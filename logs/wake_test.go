package logs

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestLinesShareAWakeUp: lines that come within one pause are one batch for each container, even after a quiet time.
func TestLinesShareAWakeUp(t *testing.T) {
	const pause = 500 * time.Millisecond
	var batches atomic.Int64
	s := New(Options{batchPause: pause, ObserveBatch: func(int, time.Duration) { batches.Add(1) }})
	defer s.Close()
	var logs [3]*testLog
	for i := range logs {
		logs[i] = newTestLog(t, 2, 1<<20)
		logs[i].s, logs[i].source.ContainerID = s, string(rune('a'+i))
		logs[i].engine.lines(1, 1)
		logs[i].start()
		logs[i].wait(1) // the first line does not wait for a pause
	}
	time.Sleep(2*pause + pause/10)
	for n := 2; n <= 5; n++ {
		for _, o := range logs {
			o.engine.lines(n, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, o := range logs {
		o.wait(5)
	}
	testutil.Assert(t, batches.Load() == 2*int64(len(logs)),
		"%d logs, each with two bursts of output, were written in %d batches", len(logs), batches.Load())
}

// TestOnlyLinesWaitForThePause: a reopening and the end of the service do not wait.
func TestOnlyLinesWaitForThePause(t *testing.T) {
	o := newTestLog(t, 2, 1<<20)
	o.s = New(Options{batchPause: time.Hour})
	defer o.s.Close()
	want := o.engine.lines(1, 1)
	o.start()
	o.wait(1)
	want = append(want, o.engine.lines(2, 9)...)
	testutil.Must(t, o.s.Reopen(t.Context(), "c"))
	o.want(want)
}
