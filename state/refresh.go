package state

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"k8s.io/apimachinery/pkg/util/wait"
)

// maxRefreshes bounds the inspects that the cache has under way at once.
const maxRefreshes = 8

// An inspect that fails is tried again, with engineBackoff in between: there may never be another event of that
// container. After the last try, about a minute later where it fails at once, the slow relist has to do.
const refreshTries = 16

// overtakenBackoff is the pause before the next look at an entry that is being written all the time.
var overtakenBackoff = wait.Backoff{
	Duration: time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 100 * time.Millisecond,
}

// eventPause is the time between a mark and its inspect. Mostly whoever has caused an event inspects the container
// right after it, and one event does not come alone.
const eventPause = 5 * time.Millisecond

// refreshes runs the inspects that nobody waits for: each id by one goroutine at a time, and once more when it was
// marked meanwhile. All of them end with the context of run.
type refreshes struct {
	mu  sync.Mutex
	ctx context.Context // nil while nobody runs them
	// refresh looks at an id, unless that was done since a question.
	refresh func(ctx context.Context, id string, since uint64) error
	group   sync.WaitGroup
	pending map[string]uint64 // by id, the last question before its last mark
}

// start lets marks have their effect until the returned stop, which waits for what is under way.
func (r *refreshes) start(ctx context.Context, refresh func(context.Context, string, uint64) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.refresh = ctx, refresh
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
	backoff := engineBackoff
	for try := 1; ; try++ {
		if try == 1 {
			_ = sleep(ctx, eventPause) // refresh looks at ctx
		}
		since := r.lastMark(id)
		err := r.refresh(ctx, id, since)
		if err != nil && try == 1 && ctx.Err() == nil {
			log.G(ctx).WithError(err).WithField("containerID", id).Warn("cannot inspect container, trying again; remove it if docker inspect fails, too")
		}
		if err != nil && try < refreshTries && sleep(ctx, backoff.Step()) == nil {
			continue
		}
		if r.finished(ctx, id, since) {
			return
		}
		backoff, try = engineBackoff, 0
	}
}

func (r *refreshes) lastMark(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[id]
}

// finished forgets the id, unless it was marked after a question of which nothing was known.
func (r *refreshes) finished(ctx context.Context, id string, since uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[id] != since && ctx.Err() == nil {
		return false
	}
	delete(r.pending, id)
	return true
}

// RefreshContainer asks the engine for a container and publishes the answer, so that the caller reads what it has just
// changed. It fails with ErrNotFound when the container does not exist (any more).
func (c *Cache) RefreshContainer(ctx context.Context, id string) (*Container, error) {
	if err := c.refresh(ctx, id, nil); err != nil {
		return nil, err
	}
	return c.Snapshot().Container(id)
}

// RefreshPod is RefreshContainer for a pod's sandbox.
func (c *Cache) RefreshPod(ctx context.Context, id string) (*Pod, error) {
	if err := c.refresh(ctx, id, nil); err != nil {
		return nil, err
	}
	return c.Snapshot().Pod(id)
}

// refresh inspects one engine container until an answer could be merged: one
// that was overtaken by a write says nothing about what the caller did.
func (c *Cache) refresh(ctx context.Context, id string, through *gate) error {
	for backoff := overtakenBackoff; ; {
		merged, err := c.inspect(ctx, id, through)
		if merged || err != nil {
			return err
		}
		if err := sleep(ctx, backoff.Step()); err != nil {
			return fmt.Errorf("container %q changes all the time: %w", id, err)
		}
	}
}

// inspect asks for an engine container once. It reports false when the answer was overtaken by a write.
func (c *Cache) inspect(ctx context.Context, id string, through *gate) (merged bool, err error) {
	look, leave, ok := through.enter(ctx)
	if !ok {
		return true, ctx.Err()
	}
	asked := c.askAbout(id)
	defer c.answeredAbout(id, asked)
	inspect, err := c.opts.Engine.InspectContainer(look, id)
	leave()
	switch {
	case errdefs.IsNotFound(err):
		c.vanished(ctx, id)
		return false, fmt.Errorf("container %q: %w", id, errdefs.ErrNotFound)
	case err != nil:
		return false, err
	}
	return c.merge(ctx, inspect, asked)
}

// merge takes an inspect that was asked for at a moment. It
// reports false when the entry has been written since, and fails when ctx ended
// before the exit hook was done.
func (c *Cache) merge(ctx context.Context, inspect *container.InspectResponse, asked question) (merged bool, err error) {
	switch entry := c.fromInspect(ctx, inspect).(type) {
	case *Pod:
		return c.mergeEntry(entry.ID, entry.Meta.Name, asked, func(now *Snapshot) *Snapshot {
			return now.withPod(mergePod(now.pod(entry.ID), entry))
		}), nil
	case *Container:
		return c.mergeContainer(ctx, entry, asked)
	default:
		return true, nil // not ours
	}
}

func (c *Cache) mergeContainer(ctx context.Context, entry *Container, asked question) (merged bool, err error) {
	if old := c.Snapshot().container(entry.ID); c.exitHook != nil && newExit(old, entry) {
		c.exitHook(ctx, entry)
		if err := ctx.Err(); err != nil {
			// The hook was cut short. The next look at the container runs it again and publishes then.
			return false, fmt.Errorf("publishing the exit of container %q: %w", entry.ID, err)
		}
	}
	return c.mergeEntry(entry.ID, entry.Meta.Name, asked, func(now *Snapshot) *Snapshot {
		return now.withContainer(mergeContainer(now.container(entry.ID), entry))
	}), nil
}

// mergeEntry publishes a change that the engine reported, unless the entry is gone or still being made. It reports
// false, and changes nothing, when the entry was written after the engine was asked, unless that was a newer answer.
func (c *Cache) mergeEntry(id, name string, asked question, change func(now *Snapshot) *Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.removed[id]; gone {
		return true
	}
	if !c.knows(id) && c.hidden(name, id, sighting{}) {
		return true
	}
	look := c.looks[id]
	if look.answered > asked.number {
		return true // a newer answer has told all that this one could
	}
	if c.written[id] > asked.seq {
		return false
	}
	look.answered = asked.number
	c.looks[id] = look
	c.publish(id, change)
	return true
}
