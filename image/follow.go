package image

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/internal/pace"
)

const (
	// relistPeriod is the time between two relists without an event. It leaves a slow list and a busy machine enough
	// time to show each change within a minute.
	relistPeriod = 45 * time.Second
	// burstPause is the time between an event and its relist. The relist also serves the events during the pause.
	burstPause = 20 * time.Millisecond
	// longestRest bounds the pause after a relist. A shorter relist is followed by a pause of its own length.
	longestRest = 300 * time.Millisecond
)

// relistBackoff is the pause after a relist that failed. A new connection or event ends it.
var relistBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

// Relist asks for a relist and never blocks. Call it on each new connection to the engine, because events before the
// connection were missed.
func (s *Service) Relist() {
	s.connection.Add(1)
	s.images.ask()
}

// Changed reports an event of the engine about an image, by the id or name in the event. It never blocks. Events are
// useless without Run.
func (s *Service) Changed(ref string) { s.images.changed(ref) }

// Run keeps the cache up to date until ctx ends, and returns ctx's error.
func (s *Service) Run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "image"))
	var foreign sync.WaitGroup
	if s.foreign != nil {
		foreign.Go(func() { s.followForeign(ctx) })
	}
	defer foreign.Wait()
	backoff, due, reason := relistBackoff, relistPeriod, ""
	for s.images.waitAsked(ctx, due) == nil {
		began := time.Now()
		err := s.images.relistInTurn(ctx)
		rest := min(time.Since(began), longestRest)
		if err == nil {
			backoff, due, reason = relistBackoff, relistPeriod, ""
		} else {
			due, reason = backoff.Step(), logRelist(ctx, err, reason)
		}
		_ = pace.Sleep(ctx, rest) // waitAsked checks ctx
	}
	return ctx.Err()
}

// waitAsked waits until a relist is requested, but no longer than due. It fails with ctx's error.
func (c *cache) waitAsked(ctx context.Context, due time.Duration) error {
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-c.wake:
		return pace.Sleep(ctx, burstPause)
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (c *cache) relistInTurn(ctx context.Context) error {
	if err := c.listing.take(ctx); err != nil {
		return err
	}
	defer c.listing.give()
	return c.relist(ctx)
}

// logRelist logs each new reason why a relist failed, and returns it. Package state logs that the engine is away.
func logRelist(ctx context.Context, err error, last string) (reason string) {
	if errdefs.IsUnavailable(err) || errdefs.IsFailedPrecondition(err) || ctx.Err() != nil || err.Error() == last {
		return last
	}
	log.G(ctx).WithError(err).Warn("cannot list images, answering from memory")
	return err.Error()
}
