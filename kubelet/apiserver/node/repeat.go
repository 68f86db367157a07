package node

import (
	"context"
	"math"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstPause and lastPause bound the wait before a step that failed is tried again, as the kubelet's.
	firstPause = 100 * time.Millisecond
	lastPause  = 7 * time.Second
	// jitter is the part of a pause that chance may add, so that the nodes of a cluster do not come back at one time.
	jitter = 0.4
	// stepTimeout bounds one try, whatever in it hangs.
	stepTimeout = 20 * time.Second
	// logInterval is how long a failure is not logged again although its reason changed.
	logInterval = time.Minute
)

// repetition is a step that is done for ever.
type repetition struct {
	// what says in the log that the step failed.
	what string
	step func(context.Context) error
	// period is the time between two steps that went well, wake one that comes sooner. once ends with the first.
	period time.Duration
	wake   <-chan struct{}
	once   bool
}

// repeat does the step until ctx ends, or until it went well once if that is enough; then it returns true.
func repeat(ctx context.Context, rep repetition) bool {
	backoff := newBackoff()
	failure := failureLog{what: rep.what}
	for {
		err := try(ctx, rep.step)
		if ctx.Err() != nil {
			return false
		}
		failure.note(ctx, err)
		pause := rep.period
		switch {
		case err != nil:
			pause = backoff.Step()
		case rep.once:
			return true
		default:
			backoff = newBackoff()
		}
		select {
		case <-ctx.Done():
			return false
		case <-rep.wake:
		case <-time.After(pause):
		}
	}
}

func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: lastPause * 10 / 14}
}

func try(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return step(ctx)
}

// failureLog logs that something began to fail and that it ended, and in between little.
type failureLog struct {
	what   string
	lasts  bool
	text   string
	logged time.Time
}

func (f *failureLog) note(ctx context.Context, err error) {
	switch {
	case err == nil && f.lasts:
		log.G(ctx).Info(f.what + ": over")
		f.lasts = false
	case err != nil && (!f.lasts || err.Error() != f.text && time.Since(f.logged) >= logInterval):
		log.G(ctx).WithError(err).Warn(f.what + ", it is tried again")
		f.lasts, f.text, f.logged = true, err.Error(), time.Now()
	}
}
