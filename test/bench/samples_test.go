package main

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestQuantile(t *testing.T) {
	ten := samples{3, 1, 2, 10, 9, 8, 4, 7, 6, 5}
	for _, test := range []struct {
		samples samples
		q       float64
		want    time.Duration
	}{
		{ten, 0.5, 5}, {ten, 0.9, 9}, {ten, 0.99, 10}, {ten, 0, 1}, {ten, 1, 10},
		{samples{7}, 0.5, 7}, {samples{7}, 0.99, 7}, {nil, 0.5, 0},
	} {
		testutil.Equal(t, test.samples.quantile(test.q), test.want, "quantile %v of %v", test.q, test.samples)
	}
}

// TestRatioComparesTurns: a machine that is slow for a while slows both sides of a turn.
func TestRatioComparesTurns(t *testing.T) {
	ours, theirs := samples{10, 1000, 20, 40}, samples{20, 2000, 40, 80}
	testutil.Equal(t, ours.ratio(theirs), 0.5, "ratio")
	testutil.Equal(t, ours.ratio(samples{5, 500}), 2, "with fewer turns")
	got := ours.ratio(nil)
	testutil.Assert(t, math.IsNaN(got), "without turns: got %v, want NaN", got)
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		testutil.Equal(t, median(values), want, "median of %v", values)
	}
}

// TestTurns: each member has a turn in each round, and no member always follows the same other member.
func TestTurns(t *testing.T) {
	const rounds, members = 50, 3
	turn, after := make([]int, members), map[[2]int]int{}
	last := -1
	err := turns(rounds, members, func(round, member int) error {
		testutil.Assert(t, turn[member] == round, "member %d has its turn %d in round %d", member, turn[member], round)
		turn[member]++
		after[[2]int{last, member}]++
		last = member
		return nil
	})
	testutil.Must(t, err)
	for first := range members {
		for second := range members {
			if first != second && after[[2]int{first, second}] < rounds/10 {
				t.Errorf("%d comes after %d only %d times", second, first, after[[2]int{first, second}])
			}
		}
	}
}

// ask drops a server's first answer if it asks the server again: that answer only warms the caches. A slow server is
// asked once, so its first answer counts.
func TestFirstAnswersWarmCaches(t *testing.T) {
	crowds := []*crowd{{criServer: &criServer{name: "slow"}}, {criServer: &criServer{name: "quick"}}}
	b := &bench{plan: plan{slow: 10 * time.Millisecond}}
	var lists table
	testutil.Must(t, b.ask(t.Context(), &lists, crowds, question{rowImages, 3, func(c *crowd, _ context.Context) error {
		if c.name == "slow" {
			time.Sleep(b.plan.slow)
		}
		return nil
	}}))
	for server, want := range map[string]int{"slow": 1, "quick": 3} {
		testutil.Equal(t, len(lists.cells[rowImages][server]), want, "samples of the %s server", server)
	}
}
