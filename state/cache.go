package state

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// ErrStarting is what Cache.Err returns from the start to the first complete
// relist, as long as nothing has gone wrong. It is an errdefs.ErrUnavailable.
var ErrStarting = fmt.Errorf("the engine's containers are still being read, try again: %w", errdefs.ErrUnavailable)

// Records is what the cache reads of the checkpoint store.
type Records interface {
	// Load returns the record of a pod; errdefs.ErrNotFound when there is none.
	Load(ctx context.Context, sandboxID string) (checkpoint.Record, error)
	// List returns all records that can be read, and the heads of those that a newer program wrote.
	List(ctx context.Context) (checkpoint.Listing, error)
}

// Options are what a Cache needs.
type Options struct {
	Engine  docker.Engine
	Records Records
	// RootDirectory, when not empty, is the root directory of this criadapter:
	// what carries the mark of another one is left out, unless Records holds
	// its pod, as after the directory was moved.
	RootDirectory string
	// Alive reports whether the pod of a record runs without a sandbox container. With an error that is not known, and
	// the pod stays as it was. It is quick. Nil stands for no such pods.
	Alive func(checkpoint.Record) (bool, error)
	// Unrecorded, when not nil, returns what is known otherwise of pods without a sandbox container, whose records may
	// be lost.
	Unrecorded func() []checkpoint.Record
	// Adopt, when not nil, is given the engine's first list of sandboxes and containers before any of them is shown,
	// and sees to it that Records has what another shim's pods need. An error is a reason not to show them, and Adopt
	// is tried again like the list.
	Adopt func(ctx context.Context, list []container.Summary) error
	// relistPeriod is the time between two full relists on a healthy connection, 5 minutes when zero.
	relistPeriod time.Duration
	// quietPeriod is how long the engine may show no sign of life before it is asked for one, 4 seconds when zero;
	// without an answer within ProbeTimeout, 8 seconds when zero, it counts as hanging.
	quietPeriod, probeTimeout time.Duration
	// ObserveEvent, when not nil, is called for every event of the engine with how late it came.
	ObserveEvent func(lag time.Duration)
}

// Cache holds the pods and containers of the node. All methods are safe for
// concurrent use; see the package comment for what they guarantee.
type Cache struct {
	opts Options
	// snapshot is all that is known of pods and containers. It is replaced only under mu.
	snapshot atomic.Pointer[Snapshot]
	exitHook func(context.Context, *Container)

	synced       chan struct{} // closed after the first complete relist
	syncedOnce   sync.Once
	settled      chan struct{} // closed when Err is no more ErrStarting
	settledOnce  sync.Once
	othersLogged sync.Once // how many pods of others there are
	adopted      bool      // Options.Adopt has succeeded; only relists know

	refreshes   refreshes
	execs       execWatchers
	subscribers subscribers
	pulse       pulse

	mu       sync.Mutex
	err      error // why the cache is not fresh, nil when it is
	heart    heartbeat
	relisted time.Time
	seq      uint64
	written  map[string]uint64 // sequence number of an id's last write, kept for removed ids too
	removed  map[string]uint64 // tombstones: the sequence number before the removal
	asks     uint64            // how many questions the engine was asked
	looks    map[string]look   // at the ids that are known
	asked    map[uint64]int    // how many answers are under way that were asked for at a sequence number
	reserved map[string]*reservation
}

// New makes an empty cache; Run fills it.
func New(opts Options) *Cache {
	if opts.relistPeriod == 0 {
		opts.relistPeriod = 5 * time.Minute
	}
	if opts.Alive == nil {
		opts.Alive = func(checkpoint.Record) (bool, error) { return false, nil }
	}
	opts.quietPeriod = cmp.Or(opts.quietPeriod, 4*time.Second)
	opts.probeTimeout = cmp.Or(opts.probeTimeout, 8*time.Second)
	if opts.ObserveEvent == nil {
		opts.ObserveEvent = func(time.Duration) {}
	}
	c := &Cache{
		opts:     opts,
		synced:   make(chan struct{}),
		settled:  make(chan struct{}),
		err:      ErrStarting,
		written:  map[string]uint64{},
		removed:  map[string]uint64{},
		looks:    map[string]look{},
		asked:    map[uint64]int{},
		reserved: map[string]*reservation{},
	}
	c.snapshot.Store(&Snapshot{})
	return c
}

// OnExit sets the hook that runs between the inspect that found a container exited and the publication of its exit. It
// must be set before Run and must bound itself.
func (c *Cache) OnExit(hook func(context.Context, *Container)) { c.exitHook = hook }

// Snapshot returns the node as it is now.
func (c *Cache) Snapshot() *Snapshot { return c.snapshot.Load() }

// Err is nil while the engine answers and the cache follows it; otherwise it
// says why not, typed ErrUnavailable or as package docker refused the engine.
func (c *Cache) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.heart.silent
}

// Relisted returns when the last complete relist ended, the zero time before the
// first. What has changed since then is known from events.
func (c *Cache) Relisted() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.relisted
}

// WaitSynced waits for the first complete relist.
func (c *Cache) WaitSynced(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// PutPod publishes a pod, replacing what was known of its id.
func (c *Cache) PutPod(pod Pod) {
	c.write(pod.ID, func(now *Snapshot) *Snapshot { return now.withPod(&pod) })
}

// PutContainer publishes a container, replacing what was known of its id.
func (c *Cache) PutContainer(container Container) {
	c.write(container.ID, func(now *Snapshot) *Snapshot { return now.withContainer(&container) })
}

// UpdatePod changes a pod's status. It does nothing for an unknown id.
func (c *Cache) UpdatePod(id string, change func(*PodStatus)) {
	c.write(id, func(now *Snapshot) *Snapshot {
		old := now.pod(id)
		if old == nil {
			return now
		}
		pod := *old
		change(&pod.Status)
		return now.withPod(&pod)
	})
}

// UpdateContainer changes a container's status. It does nothing for an unknown id.
func (c *Cache) UpdateContainer(id string, change func(*ContainerStatus)) {
	c.write(id, func(now *Snapshot) *Snapshot {
		old := now.container(id)
		if old == nil {
			return now
		}
		container := *old
		change(&container.Status)
		return now.withContainer(&container)
	})
}

// EndPod notes that a pod does not run (any more). The engine tells the end of a sandbox container by itself.
func (c *Cache) EndPod(id string) { c.UpdatePod(id, (*PodStatus).end) }

// RemovePod forgets a pod for good.
func (c *Cache) RemovePod(id string) { c.forget(id) }

// RemoveContainer forgets a container for good.
func (c *Cache) RemoveContainer(id string) { c.forget(id) }

func (c *Cache) forget(id string) {
	c.write(id, func(now *Snapshot) *Snapshot {
		delete(c.looks, id)
		c.removed[id] = c.seq
		return now.without(id)
	})
}

// write publishes what change makes of the snapshot, unless that is the same one. A write to a removed id is lost: the
// engine never uses an id twice.
func (c *Cache) write(id string, change func(now *Snapshot) *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.removed[id]; !gone {
		c.publish(id, change)
	}
}

// publish does write for an id that is not removed. The caller holds mu.
func (c *Cache) publish(id string, change func(now *Snapshot) *Snapshot) {
	before := c.snapshot.Load()
	after := change(before)
	if after == before {
		return
	}
	c.seq++
	c.written[id] = c.seq
	c.snapshot.Store(after)
	c.notify(id, before, after)
}

// question is a moment at which the engine was asked: what was written or asked
// later than that, the answer may not know.
type question struct {
	seq    uint64 // of the last write by then
	number uint64 // of the question among all
}

// ask is called before the engine is asked; answered ends the question.
func (c *Cache) ask() question {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[c.seq]++
	c.asks++
	return question{seq: c.seq, number: c.asks}
}

func (c *Cache) answered(q question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[q.seq]--; c.asked[q.seq] == 0 {
		delete(c.asked, q.seq)
	}
}

// dropTombstones forgets the removed ids that no answer under way can bring back.
func (c *Cache) dropTombstones() {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := c.seq
	for seq := range c.asked {
		oldest = min(oldest, seq)
	}
	for id, removed := range c.removed {
		if removed < oldest {
			delete(c.removed, id)
			delete(c.written, id)
		}
	}
}

// setFresh notes a complete relist.
func (c *Cache) setFresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.relisted = nil, time.Now()
	c.settledOnce.Do(func() { close(c.settled) })
}

func (c *Cache) setErr(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.settledOnce.Do(func() { close(c.settled) })
}
