package image

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// checkExpires waits for the end of a watched context. The context must end for lack of progress after the time want,
// counted from now.
func checkExpires(t *testing.T, ctx context.Context, want time.Duration, why string) {
	t.Helper()
	begun := time.Now()
	<-ctx.Done()
	testutil.Equal(t, time.Since(begun), want, "cancelled after")
	cause := context.Cause(ctx)
	testutil.Assert(t, errors.Is(cause, context.DeadlineExceeded) && strings.Contains(cause.Error(), why),
		"the cause is %v, want one that wraps context.DeadlineExceeded and says %q", cause, why)
}

func TestPullEndsWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, pull := newPullWatch(time.Minute).begin(t.Context())
		defer pull.end()
		for range 10 {
			time.Sleep(50 * time.Second)
			pull.progress(docker.PullMoves)
		}
		testutil.Require(t, ctx.Err() == nil, "cancelled in spite of its progress")
		checkExpires(t, ctx, time.Minute, "no progress for 1m0s (--image-pull-progress-deadline)")
	})
}

// TestPullWithAnEndlessDeadline: a deadline of ten years, which an operator may choose instead of none, cancels no
// pull.
func TestPullWithAnEndlessDeadline(t *testing.T) {
	for _, deadline := range []time.Duration{10 * 365 * 24 * time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			ctx, pull := newPullWatch(deadline).begin(t.Context())
			defer pull.end()
			pull.progress(docker.PullMoves)
			time.Sleep(time.Hour)
			testutil.Require(t, ctx.Err() == nil, "with the deadline %v: %v", deadline, context.Cause(ctx))
		})
	}
}

func TestProgressWatchEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		ctx, pull := newPullWatch(time.Minute).begin(parent)
		defer pull.end()
		cancel()
		<-ctx.Done()
		cause := context.Cause(ctx)
		testutil.Assert(t, errors.Is(cause, context.Canceled), "the cause is %v, want context.Canceled", cause)
	})
}

// A pull that stalls is cancelled. The pull that waits behind it is not, although both fell silent at the same time.
func TestQueuedPullOutlivesAStalledOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := newPullWatch(time.Minute)
		queuedCtx, queued := watch.begin(t.Context())
		defer queued.end()
		stalledCtx, stalled := watch.begin(t.Context())
		queued.progress(docker.PullQueued)
		stalled.progress(docker.PullMoves)
		checkExpires(t, stalledCtx, time.Minute, "")
		time.Sleep(10 * time.Second) // an engine that takes its time to give up
		stalled.end()
		synctest.Wait()
		testutil.Require(t, queuedCtx.Err() == nil, "the pull behind it ended too: %v", context.Cause(queuedCtx))
		// The queued pull waits for slots that no pull of this service holds now.
		checkExpires(t, queuedCtx, time.Minute, "no progress for 1m0s")
	})
}

// A pull that was queued has the usual deadline again after its first progress.
func TestPullThatWasQueuedMustMakeProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := newPullWatch(time.Minute)
		ctx, pull := watch.begin(t.Context())
		defer pull.end()
		stop := keepBusy(t, watch)
		defer stop()
		pull.progress(docker.PullQueued)
		time.Sleep(10 * time.Minute)
		testutil.Require(t, ctx.Err() == nil, "ended while it waited: %v", context.Cause(ctx))
		pull.progress(docker.PullMoves)
		checkExpires(t, ctx, time.Minute, "no progress for 1m0s")
	})
}

func TestQueueIsBounded(t *testing.T) {
	for name, busy := range map[string]func(*testing.T, *pullWatch) func(){
		"behind one pull":   keepBusy,
		"behind many pulls": keepComing,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				watch := newPullWatch(time.Minute)
				ctx, pull := watch.begin(t.Context())
				defer pull.end()
				stop := busy(t, watch)
				defer stop()
				pull.progress(docker.PullQueued)
				checkExpires(t, ctx, time.Hour,
					"no progress for 1h0m0s (behind other pulls, 60 times --image-pull-progress-deadline)")
			})
		})
	}
}

func TestQueuedPullsWithoutAnotherPullEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := newPullWatch(time.Minute)
		one, first := watch.begin(t.Context())
		defer first.end()
		two, second := watch.begin(t.Context())
		defer second.end()
		first.progress(docker.PullQueued)
		second.progress(docker.PullQueued)
		checkExpires(t, one, time.Minute, "")
		checkExpires(t, two, 0, "")
	})
}

// An engine that unpacks layers silently gets an hour, and no longer.
func TestSilentUnpackingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, pull := newPullWatch(time.Minute).begin(t.Context())
		defer pull.end()
		pull.progress(docker.PullUnpacks)
		checkExpires(t, ctx, time.Hour,
			"no progress for 1h0m0s (while its layers are unpacked, 60 times --image-pull-progress-deadline)")
	})
}

// keepBusy has one transfer make progress until stop is called.
func keepBusy(t *testing.T, watch *pullWatch) (stop func()) {
	ctx, pull := watch.begin(t.Context())
	return every(10*time.Second, func() {
		pull.progress(docker.PullMoves)
		testutil.Assert(t, ctx.Err() == nil, "the busy pull ended: %v", context.Cause(ctx))
	}, pull.end)
}

// keepComing has one transfer after the other begin and end until stop is called.
func keepComing(t *testing.T, watch *pullWatch) (stop func()) {
	_, pull := watch.begin(t.Context())
	return every(10*time.Second, func() {
		_, next := watch.begin(t.Context())
		pull.end()
		pull = next
	}, func() { pull.end() })
}

// every calls step again and again until stop is called. Then it calls end.
func every(pause time.Duration, step, end func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer end()
		for {
			select {
			case <-time.After(pause):
				step()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
