package state

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/pace"
)

// probePause is the time between two probes of an engine that hangs.
const probePause = time.Second

// heartbeat records whether the engine answers. An engine that hangs breaks no connection, so the cache probes it after
// a quiet period.
type heartbeat struct {
	lastSign time.Time // when the last event came, or the last probe succeeded
	hanging  error     // why the engine counts as hanging, nil if it does not
	// withList says that a request timed out after since. The probe is then a list, because a locked-up engine may
	// still answer pings. since is the time of the connection's beginning, or the end of the last list that a probe
	// made.
	withList bool
	since    time.Time
}

// resetHeartbeat begins the heartbeat of a new connection.
func (c *Cache) resetHeartbeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart = heartbeat{lastSign: time.Now(), since: time.Now()}
}

// watchEngine probes the engine while it is quiet, until ctx ends.
func (c *Cache) watchEngine(ctx context.Context) {
	for {
		c.progress.probed()
		if pace.Sleep(ctx, c.untilProbe()) != nil {
			return
		}
		if c.untilProbe() > 0 && !c.hangs() {
			continue
		}
		withList := c.probesWithList()
		err := c.probe(ctx, withList)
		if ctx.Err() != nil {
			return
		}
		c.noteProbe(ctx, withList, err)
	}
}

// untilProbe returns the time until the next probe. A sign of life from the engine before then postpones the probe.
func (c *Cache) untilProbe() time.Duration {
	answered, timedOut := c.opts.Engine.LastAnswer(), c.opts.Engine.LastTimeout()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart.withList = c.heart.withList || timedOut.After(c.heart.since)
	switch {
	case c.heart.hanging != nil:
		return probePause
	case c.heart.withList:
		return 0
	}
	if answered.After(c.heart.lastSign) {
		c.heart.lastSign = answered
	}
	return c.opts.quietPeriod - time.Since(c.heart.lastSign)
}

func (c *Cache) probesWithList() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heart.withList
}

func (c *Cache) hangs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heart.hanging != nil
}

// probe asks the engine for a sign of life, by a ping or by a list that finds nothing.
func (c *Cache) probe(ctx context.Context, withList bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.probeTimeout)
	defer cancel()
	if !withList {
		return c.opts.Engine.Ping(ctx)
	}
	_, err := c.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: "none"})
	return err
}

// noteProbe records a probe's result, and logs each change.
func (c *Cache) noteProbe(ctx context.Context, withList bool, err error) {
	c.mu.Lock()
	before := c.heart.hanging
	if err != nil {
		c.heart.hanging = fmt.Errorf("the engine does not answer, see its log or restart it: "+
			"%w", errdefs.ErrUnavailable.WithMessage(err.Error()))
	} else {
		c.heart = heartbeat{lastSign: time.Now(), since: c.heart.since}
		if withList {
			c.heart.since = time.Now()
		}
	}
	now := c.heart.hanging
	c.mu.Unlock()
	switch {
	case before == nil && now != nil:
		log.G(ctx).WithError(err).Warn("engine hangs, lists are answered from memory until it answers")
	case before != nil && now == nil:
		log.G(ctx).Info("engine answers again")
	}
}

// markAlive records a sign of life.
func (c *Cache) markAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heart.lastSign = time.Now()
}
