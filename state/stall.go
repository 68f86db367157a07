package state

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// stallSlack is how much longer than its timeouts a step may take before it counts as stuck, for a very busy machine.
const stallSlack = 30 * time.Second

// progress has the times at which goroutines of the cache began their present steps. Each step has a timeout.
type progress struct {
	// probeLoop is the beginning of the last turn of watchEngine's loop, nil while the cache follows no engine.
	probeLoop atomic.Pointer[time.Time]
	// event is the arrival time of the event that is being handled, nil between two events.
	event atomic.Pointer[time.Time]
}

func (p *progress) probed() {
	now := time.Now()
	p.probeLoop.Store(&now)
}

func (p *progress) beginEvent() (end func()) {
	now := time.Now()
	p.event.Store(&now)
	return func() { p.event.Store(nil) }
}

// Stalled returns an error if a step of the cache takes longer than its timeouts allow. A stall is a defect of
// criadapter, and only a restart ends it. An engine that is away or hangs is not a stall, see Err.
func (c *Cache) Stalled() error {
	limit := c.opts.quietPeriod + c.opts.probeTimeout + stallSlack
	var errs []error
	if at := c.progress.probeLoop.Load(); at != nil && time.Since(*at) > limit {
		errs = append(errs, fmt.Errorf("the engine has not been watched for %s", time.Since(*at).Round(time.Second)))
	}
	if at := c.progress.event.Load(); at != nil && time.Since(*at) > limit {
		errs = append(errs,
			fmt.Errorf("the cache has been busy with one of the engine's events for %s",
				time.Since(*at).Round(time.Second)))
	}
	return errors.Join(errs...)
}

// WaitSettled waits until Err is no longer ErrStarting. It fails with ctx's error.
func (c *Cache) WaitSettled(ctx context.Context) error {
	select {
	case <-c.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
