package state

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/pace"
)

// engineBackoff is the pause between two requests to an engine that fails.
var engineBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

// Run connects to the engine and follows it until ctx ends. It reconnects by itself and returns ctx's error. Its
// goroutines have ended when it returns.
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
		_ = pace.Sleep(ctx, backoff.Step()) // the loop checks ctx
	}
	return ctx.Err()
}

// lost records why the cache may be stale, and logs each new reason once.
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

// follow runs for one connection. It subscribes to the events before it relists, so that no change between the two is
// missed. Then it handles events.
func (c *Cache) follow(ctx context.Context) error {
	if _, err := c.opts.Engine.Features(ctx); err != nil {
		return err
	}
	c.resetHeartbeat() // the cache is not fresh before the relist anyway
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, maxRefreshes)
	stop := c.refreshes.start(ctx, func(ctx context.Context, id string, since uint64) error {
		needless := func() bool { return c.answeredSince(id, since) }
		return docker.IgnoreNotFound(
			c.refresh(ctx, id, &gate{slots: slots, needless: needless}))
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
	c.progress.probed()
	defer c.progress.probeLoop.Store(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		c.watchEngine(ctx)
	}()
	err := c.opts.Engine.Events(ctx, docker.EventsOptions{
		Subscribed: func() {
			close(subscribed)
			c.opts.Connected()
		},
		Handle: func(event docker.Event) { c.handle(ctx, event) },
	})
	cancel()
	<-relisting
	<-watching
	return err
}

// handle processes one event. The event reader calls handle, so handle never waits for the engine: it only schedules
// inspects.
func (c *Cache) handle(ctx context.Context, event docker.Event) {
	defer c.progress.beginEvent()()
	c.markAlive()
	c.opts.ObserveEvent(time.Since(event.Time))
	switch event.Kind {
	case docker.ExecDied:
		c.execs.notify(event.ExecID)
		return
	case docker.ImageChanged:
		c.opts.ImageChanged(event.ID)
		return
	}
	if !c.adopted.Load() || c.foreign(ctx, event) { // before Adopt has succeeded, nothing is shown
		if event.Kind == docker.ContainerCreated || event.Kind == docker.ContainerRemoved {
			c.opts.ForeignChanged()
		}
		return
	}
	if held := c.holdEvent(event); held {
		return
	}
	switch event.Kind {
	case docker.ContainerRemoved:
		c.noteRemoval(ctx, event)
	case docker.ContainerDied:
		c.noteDeath(event)
		c.lookAfter(event)
	case docker.ContainerOOM:
		c.reportOOM(event.ID)
	default:
		c.lookAfter(event)
	}
}

// reportOOM publishes an out-of-memory event, and calls the hook unless the run has had such an event.
func (c *Cache) reportOOM(id string) {
	first := false
	c.UpdateContainer(id, func(s *ContainerStatus) {
		first = !s.oomReported
		*s = s.WithOOM()
	})
	if first && c.oomHook != nil {
		c.oomHook(id)
	}
}

// foreign reports whether an event's container belongs to no pod or to another criadapter, so that other containers on
// the node cost no inspects.
func (c *Cache) foreign(ctx context.Context, event docker.Event) bool {
	_, labelled := event.Labels[translate.LabelKind]
	if labelled && c.owner(ctx, event.ID, event.Labels["name"], event.Labels) == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.knows(event.ID)
}

// holdEvent records an event of a container that is being created under a reserved name, and reports whether it did.
// The creator inspects the container itself. release schedules another inspect if the creator did not cause the event.
func (c *Cache) holdEvent(event docker.Event) (held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byCreator := event.Kind == docker.ContainerCreated || event.Kind == docker.ContainerStarted
	return c.hold(event.Labels["name"], event.ID, !byCreator)
}

// relistLoop relists at once and then every relistPeriod, with a backoff after a failure. The first relist of a
// connection trusts no entry of the cache. A container that runs in the lists of two connections may have ended and
// started again between them. ForeignChanged is called after the first relist, because its listener requests another
// list of all containers.
func (c *Cache) relistLoop(ctx context.Context) {
	backoff, trusted, foreign := engineBackoff, trustNothing, sync.OnceFunc(c.opts.ForeignChanged)
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
			foreign()
		}
		if pace.Sleep(ctx, pause) != nil {
			return
		}
	}
}
