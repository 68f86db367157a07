package image

import (
	"context"
	"fmt"
	"time"
)

// watchProgress returns a context that is cancelled when alive was not called
// for the time given; its cause is then an error that wraps
// context.DeadlineExceeded. stop must be called when the work is over.
func watchProgress(ctx context.Context, deadline time.Duration) (watched context.Context, alive, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(deadline, func() {
		cancel(fmt.Errorf("no progress for %s (--image-pull-progress-deadline): %w", deadline, context.DeadlineExceeded))
	})
	// A call of alive that races with the timer revives nothing: a context once
	// cancelled stays so, and the timer's second shot finds it cancelled.
	alive = func() { timer.Reset(deadline) }
	stop = func() {
		timer.Stop()
		cancel(nil)
	}
	return watched, alive, stop
}
