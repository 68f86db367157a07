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

	"github.com/criadapter/criadapter/internal/pace"
)

// maxRefreshes is the number of concurrent inspects.
const maxRefreshes = 8

// refreshTries is the number of tries of a failing inspect, with engineBackoff between two tries. The container may
// cause no later event that would lead to an inspect. The tries take about a minute if each fails at once. After them
// the next relist tries again.
const refreshTries = 16

// overtakenBackoff is the pause before the next inspect of an entry that is written all the time.
var overtakenBackoff = wait.Backoff{
	Duration: time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 100 * time.Millisecond,
}

// eventPause is the time between a mark and its inspect. Often the service that caused the event inspects the container
// itself, and more events of the container follow.
const eventPause = 5 * time.Millisecond

// refreshes runs inspects in the background, in one goroutine per id. If an id is marked during its inspect, another
// inspect follows.
type refreshes struct {
	mu  sync.Mutex
	ctx context.Context // nil between two connections
	// refresh inspects an id, unless an inspect sent after the request number since was merged.
	refresh func(ctx context.Context, id string, since uint64) error
	group   sync.WaitGroup
	pending map[string]uint64 // number of the last request before the last mark, by id
}

// start inspects marked ids until stop is called. stop waits until all inspects have ended.
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

// mark schedules a refresh of an id and never blocks. It does nothing without a connection, because the next connection
// begins with a relist.
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

// work refreshes one id, and repeats this if the id was marked meanwhile.
func (r *refreshes) work(ctx context.Context, id string) {
	backoff := engineBackoff
	for try := 1; ; try++ {
		if try == 1 {
			_ = pace.Sleep(ctx, eventPause) // refresh checks ctx
		}
		since := r.lastMark(id)
		err := r.refresh(ctx, id, since)
		if err != nil && try == 1 && ctx.Err() == nil {
			log.G(ctx).WithError(err).WithField("containerID", id).
				Warn("cannot inspect container, trying again; remove it if docker inspect fails, too")
		}
		if err != nil && try < refreshTries && pace.Sleep(ctx, backoff.Step()) == nil {
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

// finished removes the id from pending, unless it was marked again.
func (r *refreshes) finished(ctx context.Context, id string, since uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[id] != since && ctx.Err() == nil {
		return false
	}
	delete(r.pending, id)
	return true
}

// RefreshContainer inspects a container and publishes the answer, so that the caller reads its own change. It fails
// with ErrNotFound if the container does not exist.
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

// refresh inspects a container until an answer was merged. If a write overtook the answer, refresh inspects again,
// because the answer may lack the caller's change.
func (c *Cache) refresh(ctx context.Context, id string, through *gate) error {
	for backoff := overtakenBackoff; ; {
		merged, err := c.inspect(ctx, id, through)
		if merged || err != nil {
			return err
		}
		if err := pace.Sleep(ctx, backoff.Step()); err != nil {
			return fmt.Errorf("container %q changes all the time: %w", id, err)
		}
	}
}

// inspect inspects a container once. It returns false if a write overtook the answer.
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
		c.missing(ctx, id)
		return false, fmt.Errorf("container %q: %w", id, errdefs.ErrNotFound)
	case err != nil:
		return false, err
	}
	return c.merge(ctx, inspect, asked)
}

// merge publishes an inspect's answer. It returns false if a write overtook the answer, and fails if ctx ended before
// the exit hook.
func (c *Cache) merge(
	ctx context.Context, inspect *container.InspectResponse, asked question,
) (merged bool, err error) {
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
		c.countExiting(entry.ID, 1)
		defer c.countExiting(entry.ID, -1)
		c.exitHook(ctx, entry)
		if err := ctx.Err(); err != nil {
			// The hook was interrupted. Another inspect runs it again, also if the container is removed meanwhile.
			c.lookLater(entry.ID)
			return false, fmt.Errorf("publishing the exit of container %q: %w", entry.ID, err)
		}
	}
	return c.mergeEntry(entry.ID, entry.Meta.Name, asked, func(now *Snapshot) *Snapshot {
		c.shown(entry)
		return now.withContainer(mergeContainer(now.container(entry.ID), entry))
	}), nil
}

// mergeEntry publishes a change that the engine reported, unless the entry was removed or its name is reserved. It
// returns false, and changes nothing, if the entry was written after the request was sent. A newer answer does not
// count as a write.
func (c *Cache) mergeEntry(id, name string, asked question, change func(now *Snapshot) *Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.removed[id]; gone {
		return true
	}
	if held := c.hold(name, id, false); held {
		return true
	}
	look := c.looks[id]
	if look.answered > asked.number {
		return true // a newer answer was merged
	}
	if c.written[id] > asked.seq {
		return false
	}
	look.answered, look.missed = asked.number, false
	c.looks[id] = look
	c.publish(id, change)
	return true
}
