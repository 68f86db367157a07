package state

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker/translate"
)

// probePause is the time between two probes of an engine that does not answer.
const probePause = time.Second

// heartbeat is whether the engine answers. An engine that hangs breaks no
// connection: it is asked when nothing else has shown for a while that it lives.
type heartbeat struct {
	sign   time.Time // when the last event came, or the last probe succeeded
	silent error     // why it counts as hanging, nil when it does not
	// deep says that a request waited long for its answer since then, so that
	// the probe is a list: an engine that is locked up may still answer pings.
	deep  bool
	since time.Time
}

// resetHeartbeat begins to listen to a new connection.
func (c *Cache) resetHeartbeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart = heartbeat{sign: time.Now(), since: time.Now()}
}

// watchEngine probes the engine while it is quiet, until ctx ends.
func (c *Cache) watchEngine(ctx context.Context) {
	for {
		c.pulse.turn()
		if sleep(ctx, c.untilProbe()) != nil {
			return
		}
		if c.untilProbe() > 0 && !c.hangs() {
			continue
		}
		deep := c.deep()
		err := c.probe(ctx, deep)
		if ctx.Err() != nil {
			return
		}
		c.noteProbe(ctx, deep, err)
	}
}

// untilProbe is how long the engine need not be probed, if nothing else is heard of it.
func (c *Cache) untilProbe() time.Duration {
	answered, timedOut := c.opts.Engine.LastAnswer(), c.opts.Engine.LastTimeout()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart.deep = c.heart.deep || timedOut.After(c.heart.since)
	switch {
	case c.heart.silent != nil:
		return probePause
	case c.heart.deep:
		return 0
	}
	if answered.After(c.heart.sign) {
		c.heart.sign = answered
	}
	return c.opts.quietPeriod - time.Since(c.heart.sign)
}

func (c *Cache) deep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heart.deep
}

func (c *Cache) hangs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heart.silent != nil
}

// probe asks the engine for a sign of life: a ping, or a list without a result once another request waited long for its answer.
func (c *Cache) probe(ctx context.Context, deep bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.probeTimeout)
	defer cancel()
	if !deep {
		return c.opts.Engine.Ping(ctx)
	}
	_, err := c.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: "none"})
	return err
}

// noteProbe takes the outcome of a probe; the log gets a line per change.
func (c *Cache) noteProbe(ctx context.Context, deep bool, err error) {
	c.mu.Lock()
	before := c.heart.silent
	if err != nil {
		c.heart.silent = fmt.Errorf("the engine does not answer, see its log or restart it: %w", errdefs.ErrUnavailable.WithMessage(err.Error()))
	} else {
		c.heart = heartbeat{sign: time.Now(), since: c.heart.since}
		if deep {
			c.heart.since = time.Now()
		}
	}
	now := c.heart.silent
	c.mu.Unlock()
	switch {
	case before == nil && now != nil:
		log.G(ctx).WithError(err).Warn("engine hangs, lists are answered from memory until it answers")
	case before != nil && now == nil:
		log.G(ctx).Info("engine answers again")
	}
}

// noteEvent is told of a sign of life.
func (c *Cache) noteEvent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart.sign = time.Now()
}
