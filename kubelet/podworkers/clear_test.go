package podworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestClear: the leftovers of an unknown pod are removed. If a source names the pod meanwhile, the pod runs after the
// removal.
func TestClear(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.terminated = errors.New("its volumes are busy")
		for range 2 {
			w.Clear("a")
			tick(0)
		}
		want(t, s, "terminated a")
		testutil.Assert(t, w.Has("a") && len(w.Pods()) == 0 && len(w.Holders()) == 0, "leftovers count as a pod")
		w.Update(pod("a", "a", "1"))
		tick(0)
		want(t, s)
		s.terminated = nil
		tick(time.Second)
		want(t, s, "terminated a", "sync a 1")
		w.Clear("a")
		tick(0)
		want(t, s)
		w.Clear("b")
		tick(0)
		want(t, s, "terminated b")
		testutil.Assert(t, !w.Has("b") && w.Has("a"), "known pods: %v", w.Pods())
	})
}

// TestPodThatWaitsForTheRemoval: callers see the pod that waits, instead of the object with only a UID. A running pod
// with the same full name keeps the name.
func TestPodThatWaitsForTheRemoval(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.terminated = errors.New("its volumes are busy")
		w.Clear("a")
		tick(0)
		testutil.Assert(t, w.Pod("a") == nil, "pod %+v while no source names it", w.Pod("a"))
		w.Update(pod("a", "web", "1"))
		waits := w.Pods()["a"]
		testutil.Require(t, waits.Pod.Name == "web" && waits.State == Waiting, "the pod that waits: %+v", waits)
		holders := w.Holders()
		testutil.Require(t, len(holders) == 1 && holders[0].Name == "web" && w.Pod("a") == holders[0],
			"holders %v, pod %v", holders, w.Pod("a"))
		w.Update(pod("b", "web", "1"))
		tick(0)
		holders = w.Holders()
		testutil.Assert(t, len(holders) == 1 && holders[0].UID == "b", "holders %v", holders)
		w.Terminate(pod("a", "web", "2"), Termination{})
		testutil.Equal(t, w.Pods()["a"].State, Terminating, "the pod that waits and is deleted")
	})
}
