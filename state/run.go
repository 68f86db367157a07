package state

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// Back-off between two attempts to reach the engine.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Run connects to the engine and follows it until ctx ends; it reconnects by
// itself and returns ctx's error. All that it started has ended when it
// returns.
func (m *Mirror) Run(ctx context.Context) error {
	backoff := minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		err := m.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		m.lost(err)
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		_ = sleep(ctx, backoff) // the loop looks at ctx
		backoff = min(2*backoff, maxBackoff)
	}
	return ctx.Err()
}

// lost records why the mirror may be stale; the log gets one line per new
// reason.
func (m *Mirror) lost(err error) {
	if !errdefs.IsUnavailable(err) && !errdefs.IsFailedPrecondition(err) {
		err = fmt.Errorf("the engine cannot be followed: %w", errdefs.ErrUnavailable.WithMessage(err.Error()))
	}
	before := m.Err()
	m.setErr(err)
	if before == nil || before.Error() != err.Error() {
		logrus.WithError(err).Warn("Docker Engine does not answer, lists answer from memory until it does")
	}
}

// follow lives as long as one connection: it subscribes, then relists (so that
// nothing between the two is missed), then keeps merging events.
func (m *Mirror) follow(ctx context.Context) error {
	if _, err := m.opts.Engine.Features(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := m.refreshes.start(ctx, func(ctx context.Context, id string, since uint64) error {
		if m.answeredSince(id, since) {
			return nil
		}
		return ignoreNotFound(m.refresh(ctx, id))
	})
	defer stop()

	subscribed := make(chan struct{})
	relisting := make(chan struct{})
	go func() {
		defer close(relisting)
		select {
		case <-subscribed:
			m.relistLoop(ctx)
		case <-ctx.Done():
		}
	}()
	err := m.opts.Engine.Events(ctx, docker.EventsOptions{
		Subscribed: func() { close(subscribed) },
		Handle:     m.handle,
	})
	cancel()
	<-relisting
	return err
}

// handle is called by the event reader and never waits for the engine: it only
// marks what has to be looked at.
func (m *Mirror) handle(event docker.Event) {
	m.opts.ObserveEvent(time.Since(event.Time))
	switch {
	case event.Kind == docker.ExecDied:
		m.execs.notify(event.ExecID, event.ExitCode)
	case event.Kind == docker.ImageChanged, m.foreign(event), m.deferred(event):
	case event.Kind == docker.ContainerRemoved:
		m.vanished(event.ID)
	case event.Kind == docker.ContainerOOM:
		m.UpdateContainer(event.ID, func(s *ContainerStatus) { *s = withOOM(*s) })
	default:
		m.lookAfter(event)
	}
}

// foreign reports whether an event is about a container that is no pod's, or
// that of another criadapter, so that what else runs on the node costs no
// inspects.
func (m *Mirror) foreign(event docker.Event) bool {
	_, labelled := event.Labels[translate.LabelKind]
	if labelled && m.owner(event.ID, event.Labels["name"], event.Labels) == "" {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.knows(event.ID)
}

// deferred keeps the events of a container that is being made for its release,
// so that nothing is inspected that its maker inspects anyway.
func (m *Mirror) deferred(event docker.Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ownDoing := event.Kind == docker.ContainerCreated || event.Kind == docker.ContainerStarted
	return !m.knows(event.ID) && m.hidden(event.Labels["name"], event.ID, sighting{changed: !ownDoing})
}

// relistLoop relists now, again soon while that fails, and then at the slow
// period. The first relist of a connection inspects everything, because what
// looks alike in a list may have ended and started while nobody watched.
func (m *Mirror) relistLoop(ctx context.Context) {
	backoff, trusted := minBackoff, nothing
	for {
		wait := m.opts.RelistPeriod
		if err := m.relist(ctx, trusted); err != nil {
			wait, backoff = backoff, min(2*backoff, maxBackoff)
			if ctx.Err() == nil {
				m.lost(fmt.Errorf("listing the engine's containers: %w", err))
			}
		} else {
			backoff, trusted = minBackoff, m.agrees
			m.setFresh()
			m.syncedOnce.Do(func() { close(m.synced) })
		}
		if sleep(ctx, wait) != nil {
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
