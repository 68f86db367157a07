package state

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// stallSlack is what a step of the cache may take beyond its own bound before it counts as stuck, on a machine that is
// very busy.
const stallSlack = 30 * time.Second

// pulse is when the cache's goroutines last moved. They only ever wait for a bounded time.
type pulse struct {
	// beat is the last turn of the goroutine that watches the engine, nil while the cache follows none.
	beat atomic.Pointer[time.Time]
	// handling is when the event that is being handled came, nil between two events.
	handling atomic.Pointer[time.Time]
}

func (p *pulse) turn() {
	now := time.Now()
	p.beat.Store(&now)
}

func (p *pulse) begin() (end func()) {
	now := time.Now()
	p.handling.Store(&now)
	return func() { p.handling.Store(nil) }
}

// Stalled returns an error when the cache does not get on although nothing that it waits for can last so long: a fault
// of this program, which only a restart ends. An engine that is away or hangs is no stall; see Err.
func (c *Cache) Stalled() error {
	limit := c.opts.quietPeriod + c.opts.probeTimeout + stallSlack
	var errs []error
	if at := c.pulse.beat.Load(); at != nil && time.Since(*at) > limit {
		errs = append(errs, fmt.Errorf("the engine has not been watched for %s", time.Since(*at).Round(time.Second)))
	}
	if at := c.pulse.handling.Load(); at != nil && time.Since(*at) > limit {
		errs = append(errs, fmt.Errorf("one of the engine's events has been handled for %s", time.Since(*at).Round(time.Second)))
	}
	return errors.Join(errs...)
}

// WaitSettled waits until it is known whether the engine can be followed: Err is then no more ErrStarting.
func (c *Cache) WaitSettled(ctx context.Context) error {
	select {
	case <-c.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
