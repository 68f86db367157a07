package podworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestClear: the rest of an unknown pod is removed. A pod that a source names meanwhile runs after that.
func TestClear(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.terminated = errors.New("its volumes are busy")
		for range 2 {
			w.Clear("a")
			tick(0)
		}
		want(t, s, "terminated a")
		testutil.Assert(t, w.Has("a") && len(w.Pods()) == 0 && len(w.Holders()) == 0, "the rest of a pod is a pod")
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
