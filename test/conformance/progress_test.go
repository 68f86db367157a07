package main

import (
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Dots are counted wherever a write splits the output. A failure is printed at once, and the progress every
// progressEvery.
func TestProgress(t *testing.T) {
	var out strings.Builder
	began := time.Now()
	p := &progress{out: &out, began: began, last: began}
	const printed = "Will run 5 of 7563 specs\nRunning in parallel across 6 processes\nSS•SS•S\n------\n• " +
		"[FAILED] [5.012 seconds]\n" +
		"[sig-node] Pods should start [It]\n/source.go:12\n------\n"
	for i := range len(printed) {
		p.add([]byte(printed[i:i+1]), began.Add(time.Second))
	}
	testutil.Assert(t, p.ended == 3 && p.failed == 1, "%d ended, %d failed", p.ended, p.failed)
	testutil.Equal(t, out.String(), "failed: [sig-node] Pods should start [It]\n", "the output")
	out.Reset()
	p.add([]byte("S"), began.Add(progressEvery))
	testutil.Equal(t, out.String(), "15s: 3 of the specs ended, 1 failed; 5 of 7563 run\n", "the output")
}
