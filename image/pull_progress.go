package image

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/criadapter/criadapter/docker"
)

// maxExcused is the number of progress deadlines for which a pull may be silent with a known reason. Either it waits
// behind other pulls, or the engine unpacks its layers without reports.
const maxExcused = 60

// pullWatch cancels transfers that make no progress for the deadline.
//
// The engine limits concurrent downloads, so a transfer may be silent because its layers wait behind other transfers.
// Such a transfer may stay silent while another transfer is under way, for at most maxExcused deadlines. A transfer
// whose layers are unpacked silently has the same limit.
//
// Its methods are safe for concurrent use.
type pullWatch struct {
	deadline time.Duration
	mu       sync.Mutex
	// pulls are the transfers that have not ended, including cancelled ones.
	pulls map[*watchedPull]struct{}
}

// newPullWatch returns a watch. maxExcused deadlines have to fit into a Duration, so the longest deadline is some five
// years.
func newPullWatch(deadline time.Duration) *pullWatch {
	return &pullWatch{deadline: min(deadline, math.MaxInt64/maxExcused), pulls: make(map[*watchedPull]struct{})}
}

// watchedPull is one transfer. pullWatch.mu guards its fields.
type watchedPull struct {
	watch  *pullWatch
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// expiry is when the transfer expires. The timer may fire earlier, just before it is reset.
	expiry time.Time
	// stepped is the time of the transfer's last progress.
	stepped time.Time
	phase   docker.PullPhase
}

// begin returns a context that is cancelled if the transfer makes no progress for too long. Its cause then wraps
// context.DeadlineExceeded. The caller must call end after the transfer.
func (w *pullWatch) begin(ctx context.Context) (context.Context, *watchedPull) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	pull := &watchedPull{watch: w, cancel: cancel, stepped: time.Now(), expiry: time.Now().Add(w.deadline)}
	pull.timer = time.AfterFunc(w.deadline, pull.expire)
	w.pulls[pull] = struct{}{}
	return ctx, pull
}

// progress records progress of the transfer. It is docker.PullOptions.Progress.
func (p *watchedPull) progress(phase docker.PullPhase) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	p.phase, p.stepped = phase, time.Now()
	p.extend()
}

// end ends the watch. Transfers that waited for its slots get another deadline.
func (p *watchedPull) end() {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	p.timer.Stop()
	p.cancel(nil)
	delete(p.watch.pulls, p)
	for other := range p.watch.pulls {
		if other.phase == docker.PullQueued {
			other.extend()
		}
	}
}

// extend gives the transfer another deadline, up to its limit. The caller holds the lock.
func (p *watchedPull) extend() {
	left := time.Until(p.stepped.Add(maxExcused * p.watch.deadline))
	wait := min(p.watch.deadline, left)
	p.expiry = time.Now().Add(wait)
	p.timer.Reset(wait)
}

// expire cancels the transfer, unless it has an excuse.
func (p *watchedPull) expire() {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	_, underway := p.watch.pulls[p]
	silent := time.Since(p.stepped)
	excuse := p.excuse()
	switch {
	case !underway || time.Until(p.expiry) > 0: // ended, or got more time, while the timer fired
	case excuse == "":
		p.cancel(noProgress(p.watch.deadline, "--image-pull-progress-deadline"))
	case silent >= maxExcused*p.watch.deadline:
		p.cancel(
			noProgress(maxExcused*p.watch.deadline,
				fmt.Sprintf("%s, %d times --image-pull-progress-deadline", excuse, maxExcused)))
	default:
		p.extend()
	}
}

// excuse returns the reason for which the transfer may be silent, empty without a reason. The caller holds the lock.
func (p *watchedPull) excuse() string {
	switch {
	case p.phase == docker.PullUnpacks:
		return "while its layers are unpacked"
	case p.phase == docker.PullQueued && p.watch.busy():
		return "behind other pulls"
	}
	return ""
}

func noProgress(silence time.Duration, why string) error {
	return fmt.Errorf("no progress for %s (%s): %w", silence, why, context.DeadlineExceeded)
}

// busy reports whether a transfer that is not queued is under way. The caller holds the lock.
func (w *pullWatch) busy() bool {
	for pull := range w.pulls {
		if pull.phase != docker.PullQueued {
			return true
		}
	}
	return false
}
