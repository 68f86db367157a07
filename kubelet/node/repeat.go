package node

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// firstPause and lastPause bound the wait before a step that failed is tried again, as the kubelet's.
	firstPause = 100 * time.Millisecond
	lastPause  = 7 * time.Second
	// stepTimeout bounds one try, whatever in it hangs.
	stepTimeout = 20 * time.Second
	// sayAgain is how long a trouble is not spoken of again although its reason changed.
	sayAgain = time.Minute
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
	var pause time.Duration
	told := trouble{what: rep.what}
	for {
		err := try(ctx, rep.step)
		if ctx.Err() != nil {
			return false
		}
		told.note(err)
		wait := rep.period
		switch {
		case err != nil:
			pause = min(max(2*pause, firstPause), lastPause)
			wait = pause
		case rep.once:
			return true
		default:
			pause = 0
		}
		select {
		case <-ctx.Done():
			return false
		case <-rep.wake:
		case <-time.After(wait):
		}
	}
}

func try(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return step(ctx)
}

// trouble writes into the log that something began to fail and that it ended, and in between little.
type trouble struct {
	what   string
	lasts  bool
	text   string
	spoken time.Time
}

func (t *trouble) note(err error) {
	switch {
	case err == nil && t.lasts:
		logrus.Info(t.what + ": that is over")
		t.lasts = false
	case err != nil && (!t.lasts || err.Error() != t.text && time.Since(t.spoken) >= sayAgain):
		logrus.WithError(err).Warn(t.what + "; it is tried again")
		t.lasts, t.text, t.spoken = true, err.Error(), time.Now()
	}
}
