package podworkers

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestShorterGraceInterrupts(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.terminate = func(ctx context.Context, _ *v1.Pod, t Termination) error {
			if t.Grace == nil || *t.Grace > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		w.Terminate(pod("a", "a", ""), Termination{Grace: new(int64(100))})
		tick(0)
		w.Terminate(pod("a", "a", ""), Termination{Grace: new(int64(1))})
		tick(0)
		want(t, s, "terminate a", "terminate a", "terminated a")
	})
}

// TestLaterGraceIsNotLonger: a later request can shorten the pod's own grace period, but cannot lengthen it. A pod
// without a period of its own takes the requested one.
func TestLaterGraceIsNotLonger(t *testing.T) {
	for _, one := range []struct {
		own, later *int64
		calls      int
		grace      int64
	}{
		{new(int64(30)), new(int64(600)), 1, 30},
		{new(int64(30)), new(int64(5)), 2, 5},
		{nil, new(int64(600)), 2, 600},
	} {
		inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
			s.terminate = func(ctx context.Context, _ *v1.Pod, _ Termination) error {
				<-ctx.Done()
				return ctx.Err()
			}
			of := pod("a", "a", "")
			of.Spec.TerminationGracePeriodSeconds = one.own
			w.Terminate(of, Termination{})
			tick(0)
			deleted := of.DeepCopy()
			deleted.DeletionGracePeriodSeconds = one.later
			w.Terminate(deleted, Termination{Grace: one.later})
			tick(0)
			testutil.Equal(t, len(s.take()), one.calls, "steps")
			w.mu.Lock()
			defer w.mu.Unlock()
			testutil.Equal(t, *w.pods["a"].termination.Grace, one.grace, "grace period")
		})
	}
}
