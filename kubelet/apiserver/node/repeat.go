package node

import (
	"context"
	"math"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// The pause before a retry doubles from firstPause, as in the kubelet. With its jitter it is at most lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 7 * time.Second
	// jitter is the random part of a pause, so that not all nodes of a cluster retry at the same time.
	jitter = 0.4
	// stepTimeout bounds one attempt.
	stepTimeout = 20 * time.Second
	// logInterval is the least time between two logs of the same failure with changing reasons.
	logInterval = time.Minute
)

// repetition is a step that repeat calls again and again.
type repetition struct {
	// what is the log message for a failed step.
	what string
	step func(context.Context) error
	// period is the pause after a successful step, and wake ends it early. once ends the repetition after the first
	// success.
	period time.Duration
	wake   <-chan struct{}
	once   bool
}

// repeat calls the step until ctx ends. With once it returns true after the first success.
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

// failureLog logs the first of consecutive failures and the success after them. In between it logs a failure with
// another text at most once per logInterval.
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
		log.G(ctx).WithError(err).Warn(f.what + ", retrying")
		f.lasts, f.text, f.logged = true, err.Error(), time.Now()
	}
}
