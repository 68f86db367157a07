package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func stamped(name string, created, ready time.Time) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
	if !ready.IsZero() {
		pod.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(ready)}}
	}
	return pod
}

func emptyCrowd() *crowd {
	return &crowd{seen: make(map[string]*seen), changed: make(chan struct{}, 1), ended: make(chan struct{})}
}

// upTimes uses the pods' own time stamps, goneTimes the clock. upTimes leaves out forgotten pods, and goneTimes leaves
// out pods that went before forget.
func TestCrowdTimes(t *testing.T) {
	c := emptyCrowd()
	zero := time.Unix(1000, 0)
	c.see(stamped("a", zero, time.Time{}), false, zero)
	c.see(stamped("a", zero, zero.Add(3*time.Second)), false, zero)
	c.see(stamped("b", zero.Add(time.Second), zero.Add(2*time.Second)), false, zero)
	c.see(stamped("c", zero.Add(time.Second), time.Time{}), false, zero)
	testutil.Equal(t, c.upTimes(), times{N: 2, P50: 1, P99: 3, All: 3}, "up")
	c.seen["a"].deleted = zero
	testutil.Equal(t, c.tally(), tally{ready: 1, waiting: 1, going: 1, deleted: 1}, "while one goes")
	c.see(stamped("a", zero, time.Time{}), true, zero.Add(4*time.Second))
	testutil.Equal(t, c.goneTimes(), times{N: 1, P50: 4, P99: 4, All: 4}, "gone")
	c.forget()
	testutil.Equal(t, c.upTimes().N, 0, "forgotten pods that count")
	testutil.Equal(t, c.goneTimes().N, 0, "counted pods that went before forget")
	testutil.Equal(t, c.tally(), tally{ready: 1, waiting: 1, old: 2}, "after forgetting")
	testutil.Equal(t, strings.Join(c.named(func(*seen) bool { return true }), " "), "b c", "left")
}

// A pod that is gone without a deletion counts as missing, and not in goneTimes.
func TestPodIsLost(t *testing.T) {
	c := emptyCrowd()
	now := time.Now()
	c.see(stamped("a", now, now), false, now)
	c.see(stamped("b", now, now), false, now)
	c.see(stamped("b", now, now), true, now)
	err := c.tally().settled(2)
	testutil.Assert(t, err != nil && strings.HasPrefix(err.Error(), "1 pods are Ready"), "with a lost pod: %v", err)
	got := c.goneTimes()
	testutil.Assert(t, got.N == 0, "a lost pod has a time to go: %+v", got)
}

// A wait that times out returns what is missing. A wait that is ended earlier returns the cause.
func TestAwait(t *testing.T) {
	c := emptyCrowd()
	missing := errors.New("2 pods are missing")
	never := func(tally) error { return missing }
	err := c.await(t.Context(), time.Millisecond, never)
	testutil.Assert(t, errors.Is(err, missing) && strings.Contains(err.Error(), "after 1ms"),
		"when the time is over: %v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = c.await(ctx, time.Minute, never)
	testutil.Assert(t, errors.Is(err, context.Canceled), "when the run ends: %v", err)
	close(c.ended)
	err = c.await(t.Context(), time.Minute, never)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "ended the watch"), "when the watch ends: %v", err)
	testutil.Check(t, c.await(t.Context(), time.Minute, func(tally) error { return nil }))
}
