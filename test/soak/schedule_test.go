package main

import (
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func first(seed uint64, n int) (faults []fault) {
	for f := range schedule(seed) {
		if faults = append(faults, f); len(faults) == n {
			break
		}
	}
	return faults
}

// The same seed gives the same schedule, however many faults a run makes. Another seed gives another schedule.
func TestScheduleRepeats(t *testing.T) {
	a, b := first(7, 50), first(7, 80)
	testutil.Assert(t, slices.Equal(a, b[:50]), "one seed gives two schedules")
	a, b = first(7, 50), first(8, 50)
	testutil.Assert(t, !slices.Equal(a, b), "two seeds give one schedule")
}

// Each kind comes once before any kind comes again. Pauses and lengths are within their bounds.
func TestScheduleIsWhole(t *testing.T) {
	n := len(kinds())
	faults := first(42, 3*n)
	for deal := range slices.Chunk(faults, n) {
		var dealt []string
		for _, f := range deal {
			dealt = append(dealt, f.Kind)
		}
		for _, kind := range kinds() {
			testutil.Assert(t, slices.Contains(dealt, kind), "%q is not among %q", kind, dealt)
		}
	}
	for i, f := range faults {
		if f.Number != i+1 || f.Calm < calmLeast*time.Second || f.Calm > calmMost*time.Second ||
			f.Lasts < lastsLeast*time.Second || f.Lasts > lastsMost*time.Second {
			t.Errorf("entry %d is %+v", i, f)
		}
	}
}

// A plan has the schedule's faults that fit into the time.
func TestPlanned(t *testing.T) {
	faults := first(7, 3)
	var within time.Duration
	want := ""
	for _, f := range faults[:2] {
		within += f.Calm + f.Lasts
		want += f.String() + "\n"
	}
	testutil.Equal(t, planned(7, within+time.Second), want, "planned")
	testutil.Equal(t, planned(7, time.Second), "", "within a second")
}
