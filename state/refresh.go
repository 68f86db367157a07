package state

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/sirupsen/logrus"
)

// maxRefreshes bounds the inspects that the mirror has under way at once.
const maxRefreshes = 8

// An inspect that fails is tried again: there may never be
// another event of that container. After the last try, about a minute later,
// the slow relist has to do.
const (
	refreshTries = 16
	minRetry     = 100 * time.Millisecond
	maxRetry     = 5 * time.Second
)

// maxOvertakenPause bounds the pause before the next look at an entry that is
// being written all the time.
const maxOvertakenPause = 100 * time.Millisecond

// refreshes runs the inspects that nobody waits for: each id by one goroutine
// at a time, and once more when it was marked meanwhile. All of them end with
// the context of run.
type refreshes struct {
	mu      sync.Mutex
	ctx     context.Context // nil while nobody runs them
	refresh func(context.Context, string) error
	slots   chan struct{}
	group   sync.WaitGroup
	pending map[string]bool // value: marked again while under way
}

// start lets marks have their effect until the returned stop, which waits for
// what is under way.
func (r *refreshes) start(ctx context.Context, refresh func(context.Context, string) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.refresh = ctx, refresh
	r.slots = make(chan struct{}, maxRefreshes)
	r.pending = map[string]bool{}
	return func() {
		r.mu.Lock()
		r.ctx = nil
		r.mu.Unlock()
		cancel()
		r.group.Wait()
	}
}

// mark asks for a refresh of one id and never blocks. Without a connection it
// does nothing: the next one begins with a relist.
func (r *refreshes) mark(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	if _, busy := r.pending[id]; busy {
		r.pending[id] = true
		return
	}
	r.pending[id] = false
	ctx := r.ctx
	r.group.Go(func() { r.work(ctx, id) })
}

// work refreshes one id until nobody has marked it since.
func (r *refreshes) work(ctx context.Context, id string) {
	retry := minRetry
	for try := 1; ; try++ {
		err := r.inSlot(ctx, id)
		if err != nil && try == 1 && ctx.Err() == nil {
			logrus.WithError(err).WithField("id", id).Warn("cannot inspect a container, trying again; remove it if docker inspect fails, too")
		}
		if err != nil && try < refreshTries && sleep(ctx, retry) == nil {
			retry = min(2*retry, maxRetry)
			continue
		}
		if r.finished(ctx, id) {
			return
		}
		retry, try = minRetry, 0
	}
}

// inSlot refreshes one id when there is a slot for it.
func (r *refreshes) inSlot(ctx context.Context, id string) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		return r.refresh(ctx, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finished forgets the id, unless it was marked again.
func (r *refreshes) finished(ctx context.Context, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[id] && ctx.Err() == nil {
		r.pending[id] = false
		return false
	}
	delete(r.pending, id)
	return true
}

// RefreshContainer asks the engine for a container and publishes the answer, so
// that the caller reads what it has just changed. It fails with ErrNotFound
// when the container does not exist (any more).
func (m *Mirror) RefreshContainer(ctx context.Context, id string) (*Container, error) {
	if err := m.refresh(ctx, id); err != nil {
		return nil, err
	}
	return m.Snapshot().Container(id)
}

// RefreshPod is RefreshContainer for a pod's sandbox.
func (m *Mirror) RefreshPod(ctx context.Context, id string) (*Pod, error) {
	if err := m.refresh(ctx, id); err != nil {
		return nil, err
	}
	return m.Snapshot().Pod(id)
}

// refresh inspects one engine container until an answer could be merged: one
// that was overtaken by a write says nothing about what the caller did.
func (m *Mirror) refresh(ctx context.Context, id string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, maxOvertakenPause) {
		merged, err := m.look(ctx, id)
		if merged || err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("container %q changes all the time: %w", id, err)
		}
	}
}

// look inspects an engine container once. It reports false when the answer was
// overtaken by a write.
func (m *Mirror) look(ctx context.Context, id string) (merged bool, err error) {
	seq := m.ask()
	defer m.answered(seq)
	inspect, err := m.opts.Engine.InspectContainer(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		m.vanished(id)
		return false, fmt.Errorf("container %q: %w", id, errdefs.ErrNotFound)
	case err != nil:
		return false, err
	}
	return m.merge(ctx, inspect, seq)
}

// merge takes an inspect that was asked for when the mirror was at seq. It
// reports false when the entry has been written since, and fails when ctx ended
// before the exit hook was done.
func (m *Mirror) merge(ctx context.Context, inspect *container.InspectResponse, seq uint64) (merged bool, err error) {
	switch entry := m.fromInspect(inspect).(type) {
	case *Pod:
		return m.mergeEntry(entry.ID, entry.Meta.Name, seq, func() {
			m.pods[entry.ID] = mergePod(m.pods[entry.ID], entry)
		}), nil
	case *Container:
		return m.mergeContainer(ctx, entry, seq)
	default:
		return true, nil // not ours
	}
}

func (m *Mirror) mergeContainer(ctx context.Context, entry *Container, seq uint64) (merged bool, err error) {
	if old := m.Snapshot().container(entry.ID); m.exitHook != nil && newExit(old, entry) {
		m.exitHook(ctx, entry)
		if err := ctx.Err(); err != nil {
			// The hook was cut short. The next look at the container runs it
			// again and publishes then.
			return false, fmt.Errorf("publishing the exit of container %q: %w", entry.ID, err)
		}
	}
	return m.mergeEntry(entry.ID, entry.Meta.Name, seq, func() {
		m.containers[entry.ID] = mergeContainer(m.containers[entry.ID], entry)
	}), nil
}

// mergeEntry publishes a change that the engine reported, unless the entry is
// gone or still being made. It reports false, and changes nothing, when the
// entry was written after the engine was asked.
func (m *Mirror) mergeEntry(id, name string, seq uint64, change func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, gone := m.removed[id]; gone {
		return true
	}
	if !m.knows(id) && m.hidden(name, id, sighting{}) {
		return true
	}
	if m.written[id] > seq {
		return false
	}
	change()
	m.publish(id)
	return true
}

func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
