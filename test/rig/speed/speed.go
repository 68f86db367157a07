// Package speed measures how fast the machine is. The rig runs fewer tests at once on a slow machine, and the limits of
// tests that measure time are longer there.
package speed

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"
)

const (
	// usualStart is the time for the start of a program on a usual machine at rest.
	usualStart = 2 * time.Millisecond
	// Slow is the shortest time for the start of a program on a machine that counts as slow.
	Slow = 5 * usualStart
	// starts is the number of starts that StartTime measures.
	starts = 20
)

// StartTime returns how long the start of a program takes at present: the median of some runs of true(1).
func StartTime(ctx context.Context) (time.Duration, error) {
	return medianOf(func() (time.Duration, error) {
		began := time.Now()
		err := exec.CommandContext(ctx, "true").Run()
		return time.Since(began), err
	})
}

func medianOf(measure func() (time.Duration, error)) (time.Duration, error) {
	var took []time.Duration
	for range starts {
		one, err := measure()
		if err != nil {
			return 0, err
		}
		took = append(took, one)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// Check fails the test if took exceeds limit, which is for a usual machine. If the start of a program takes longer than
// usual at present, the limit grows by the same factor. Call Check right after the measured operation.
func Check(t testing.TB, what string, took, limit time.Duration) {
	t.Helper()
	if took <= limit {
		return
	}
	start, err := StartTime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most := scale(limit, start); took > most {
		t.Errorf("%s took %v, want at most %v where a program's start takes %v", what, took, most, start)
	}
}

// scale returns a limit for a machine on which the start of a program takes the time start.
func scale(limit, start time.Duration) time.Duration {
	return max(limit, time.Duration(float64(limit)*float64(start)/float64(usualStart)))
}
