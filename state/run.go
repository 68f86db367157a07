package state

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// engineBackoff is the pause between two attempts to ask an engine that fails.
var engineBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

// Run connects to the engine and follows it until ctx ends; it reconnects by itself and returns ctx's error. All that
// it started has ended when it returns.
func (c *Cache) Run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "state"))
	backoff := engineBackoff
	for ctx.Err() == nil {
		began := time.Now()
		err := c.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		c.lost(ctx, err)
		if time.Since(began) > engineBackoff.Cap {
			backoff = engineBackoff
		}
		_ = sleep(ctx, backoff.Step()) // the loop looks at ctx
	}
	return ctx.Err()
}

// lost records why the cache may be stale; the log gets one line per new reason.
func (c *Cache) lost(ctx context.Context, err error) {
	if !errdefs.IsUnavailable(err) && !errdefs.IsFailedPrecondition(err) {
		err = fmt.Errorf("the engine cannot be followed: %w", errdefs.ErrUnavailable.WithMessage(err.Error()))
	}
	before := c.Err()
	c.setErr(err)
	if before == nil || before.Error() != err.Error() {
		log.G(ctx).WithError(err).Warn("engine is unavailable, lists are answered from memory until it is back")
	}
}

// follow lives as long as one connection: it subscribes, then relists (so that
// nothing between the two is missed), then keeps merging events.
func (c *Cache) follow(ctx context.Context) error {
	if _, err := c.opts.Engine.Features(ctx); err != nil {
		return err
	}
	c.resetHeartbeat() // until the relist the cache is not fresh anyway
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, maxRefreshes)
	stop := c.refreshes.start(ctx, func(ctx context.Context, id string, since uint64) error {
		needless := func() bool { return c.answeredSince(id, since) }
		return docker.IgnoreNotFound(c.refresh(ctx, id, &gate{slots: slots, patience: inspectPatience, needless: needless}))
	})
	defer stop()

	subscribed := make(chan struct{})
	relisting := make(chan struct{})
	go func() {
		defer close(relisting)
		select {
		case <-subscribed:
			c.relistLoop(ctx)
		case <-ctx.Done():
		}
	}()
	c.pulse.turn()
	defer c.pulse.beat.Store(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		c.watchEngine(ctx)
	}()
	err := c.opts.Engine.Events(ctx, docker.EventsOptions{
		Subscribed: func() { close(subscribed) },
		Handle:     func(event docker.Event) { c.handle(ctx, event) },
	})
	cancel()
	<-relisting
	<-watching
	return err
}

// handle is called by the event reader and never waits for the engine: it only marks what has to be looked at.
func (c *Cache) handle(ctx context.Context, event docker.Event) {
	defer c.pulse.begin()()
	c.noteEvent()
	c.opts.ObserveEvent(time.Since(event.Time))
	switch {
	case event.Kind == docker.ExecDied:
		c.execs.notify(event.ExecID)
	case event.Kind == docker.ImageChanged, c.foreign(ctx, event), c.deferred(event):
	case event.Kind == docker.ContainerRemoved:
		c.vanished(ctx, event.ID)
	case event.Kind == docker.ContainerOOM:
		c.UpdateContainer(event.ID, func(s *ContainerStatus) { *s = withOOM(*s) })
	default:
		c.lookAfter(event)
	}
}

// foreign reports whether an event is about a container that is no pod's, or that of another criadapter, so that what
// else runs on the node costs no inspects.
func (c *Cache) foreign(ctx context.Context, event docker.Event) bool {
	_, labelled := event.Labels[translate.LabelKind]
	if labelled && c.owner(ctx, event.ID, event.Labels["name"], event.Labels) == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.knows(event.ID)
}

// deferred keeps the events of a container that is being made for its release,
// so that nothing is inspected that its maker inspects anyway.
func (c *Cache) deferred(event docker.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ownDoing := event.Kind == docker.ContainerCreated || event.Kind == docker.ContainerStarted
	return !c.knows(event.ID) && c.hidden(event.Labels["name"], event.ID, sighting{changed: !ownDoing})
}

// relistLoop relists now, again soon while that fails, and then at the slow period. The first relist of a connection
// inspects everything, because what looks alike in a list may have ended and started while nobody watched.
func (c *Cache) relistLoop(ctx context.Context) {
	backoff, trusted := engineBackoff, nothing
	for {
		pause := c.opts.relistPeriod
		if err := c.relist(ctx, trusted); err != nil {
			pause = backoff.Step()
			if ctx.Err() == nil {
				c.lost(ctx, fmt.Errorf("listing the engine's containers: %w", err))
			}
		} else {
			backoff, trusted = engineBackoff, c.agrees
			c.setFresh()
			c.syncedOnce.Do(func() { close(c.synced) })
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// sleep waits for d and returns nil, or earlier with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
