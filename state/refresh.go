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

// eventPause is the time between a mark and its inspect. Mostly whoever has
// caused an event inspects the container right after it, and one event does not
// come alone.
const eventPause = 5 * time.Millisecond

// refreshes runs the inspects that nobody waits for: each id by one goroutine
// at a time, and once more when it was marked meanwhile. All of them end with
// the context of run.
type refreshes struct {
	mu  sync.Mutex
	ctx context.Context // nil while nobody runs them
	// refresh looks at an id, unless that was done since a question.
	refresh func(ctx context.Context, id string, since uint64) error
	slots   chan struct{}
	group   sync.WaitGroup
	pending map[string]uint64 // by id, the last question before its last mark
}

// start lets marks have their effect until the returned stop, which waits for
// what is under way.
func (r *refreshes) start(ctx context.Context, refresh func(context.Context, string, uint64) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.refresh = ctx, refresh
	r.slots = make(chan struct{}, maxRefreshes)
	r.pending = map[string]uint64{}
	return func() {
		r.mu.Lock()
		r.ctx = nil
		r.mu.Unlock()
		cancel()
		r.group.Wait()
	}
}

// mark asks for a refresh of one id and never blocks. It does nothing without a
// connection: the next one begins with a relist.
func (r *refreshes) mark(id string, since uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	_, busy := r.pending[id]
	r.pending[id] = since
	if !busy {
		ctx := r.ctx
		r.group.Go(func() { r.work(ctx, id) })
	}
}

// work refreshes one id until nobody has marked it since.
func (r *refreshes) work(ctx context.Context, id string) {
	retry := minRetry
	for try := 1; ; try++ {
		if try == 1 {
			_ = sleep(ctx, eventPause) // inSlot looks at ctx
		}
		since := r.lastMark(id)
		err := r.inSlot(ctx, id, since)
		if err != nil && try == 1 && ctx.Err() == nil {
			logrus.WithError(err).WithField("id", id).Warn("cannot inspect a container, trying again; remove it if docker inspect fails, too")
		}
		if err != nil && try < refreshTries && sleep(ctx, retry) == nil {
			retry = min(2*retry, maxRetry)
			continue
		}
		if r.finished(ctx, id, since) {
			return
		}
		retry, try = minRetry, 0
	}
}

// inSlot refreshes one id when there is a slot for it.
func (r *refreshes) inSlot(ctx context.Context, id string, since uint64) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		return r.refresh(ctx, id, since)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *refreshes) lastMark(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[id]
}

// finished forgets the id, unless it was marked after a question of which
// nothing was known.
func (r *refreshes) finished(ctx context.Context, id string, since uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[id] != since && ctx.Err() == nil {
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
		merged, err := m.inspect(ctx, id)
		if merged || err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("container %q changes all the time: %w", id, err)
		}
	}
}

// inspect asks for an engine container once. It reports false when the answer was
// overtaken by a write.
func (m *Mirror) inspect(ctx context.Context, id string) (merged bool, err error) {
	asked := m.askAbout(id)
	defer m.answeredAbout(id, asked)
	seen, err := m.opts.Engine.InspectContainer(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		m.vanished(id)
		return false, fmt.Errorf("container %q: %w", id, errdefs.ErrNotFound)
	case err != nil:
		return false, err
	}
	return m.merge(ctx, seen, asked)
}

// merge takes an inspect that was asked for at a moment. It
// reports false when the entry has been written since, and fails when ctx ended
// before the exit hook was done.
func (m *Mirror) merge(ctx context.Context, inspect *container.InspectResponse, asked question) (merged bool, err error) {
	switch entry := m.fromInspect(inspect).(type) {
	case *Pod:
		return m.mergeEntry(entry.ID, entry.Meta.Name, asked, func() {
			m.pods[entry.ID] = mergePod(m.pods[entry.ID], entry)
		}), nil
	case *Container:
		return m.mergeContainer(ctx, entry, asked)
	default:
		return true, nil // not ours
	}
}

func (m *Mirror) mergeContainer(ctx context.Context, entry *Container, asked question) (merged bool, err error) {
	if old := m.Snapshot().container(entry.ID); m.exitHook != nil && newExit(old, entry) {
		m.exitHook(ctx, entry)
		if err := ctx.Err(); err != nil {
			// The hook was cut short. The next look at the container runs it
			// again and publishes then.
			return false, fmt.Errorf("publishing the exit of container %q: %w", entry.ID, err)
		}
	}
	return m.mergeEntry(entry.ID, entry.Meta.Name, asked, func() {
		m.containers[entry.ID] = mergeContainer(m.containers[entry.ID], entry)
	}), nil
}

// mergeEntry publishes a change that the engine reported, unless the entry is
// gone or still being made. It reports false, and changes nothing, when the
// entry was written after the engine was asked, unless that was a newer answer.
func (m *Mirror) mergeEntry(id, name string, asked question, change func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, gone := m.removed[id]; gone {
		return true
	}
	if !m.knows(id) && m.hidden(name, id, sighting{}) {
		return true
	}
	look := m.looks[id]
	if look.answered > asked.number {
		return true // a newer answer has told all that this one could
	}
	if m.written[id] > asked.seq {
		return false
	}
	look.answered = asked.number
	m.looks[id] = look
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
