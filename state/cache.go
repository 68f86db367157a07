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

// ErrStarting is the result of Cache.Err until the first complete relist, unless an error came first. It is an
// errdefs.ErrUnavailable.
var ErrStarting = fmt.Errorf("the engine's containers are still being read, try again: %w", errdefs.ErrUnavailable)

// Records is the part of the checkpoint store that the cache reads.
type Records interface {
	// Load returns the record of a pod. It fails with errdefs.ErrNotFound if there is none.
	Load(ctx context.Context, sandboxID string) (checkpoint.Record, error)
	// LoadContainer returns the record of one container of a pod. It fails with errdefs.ErrNotFound if there is none.
	LoadContainer(ctx context.Context, sandboxID, containerID string) (checkpoint.Container, error)
	// List returns all readable records, and the heads of records that a newer program wrote.
	List(ctx context.Context) (checkpoint.Listing, error)
}

// Options are what a Cache needs.
type Options struct {
	Engine  docker.Engine
	Records Records
	// RootDirectory is the root directory of this criadapter. The cache ignores containers marked with another root
	// directory, unless Records has their pod because the directory was moved. With an empty RootDirectory it ignores
	// none.
	RootDirectory string
	// Alive reports whether the pod of a record runs without a sandbox container. After an error the pod stays as it
	// was. Alive must be quick. If Alive is nil, no pod runs without a sandbox container.
	Alive func(checkpoint.Record) (bool, error)
	// Unrecorded returns the records that pods without a sandbox container have in their own directories. Records may
	// have lost some of them. It may be nil.
	Unrecorded func() []checkpoint.Record
	// Adopt gets the engine's first list of sandboxes and containers before any of them is shown. It completes Records
	// for the pods of another shim. After an error the cache shows none of them and calls Adopt again with the next
	// list. It may be nil.
	Adopt func(ctx context.Context, list []container.Summary) error
	// relistPeriod is the time between two full relists on a healthy connection, 5 minutes if zero.
	relistPeriod time.Duration
	// quietPeriod is the time without an event or answer after which the engine is probed, 4 seconds if zero. The
	// engine counts as hanging if it does not answer within probeTimeout, 8 seconds if zero.
	quietPeriod, probeTimeout time.Duration
	// ObserveEvent is called for every engine event with its delay. It may be nil.
	ObserveEvent func(lag time.Duration)
	// Connected is called for each new stream of events, before the stream's first event. Events before the stream may
	// be lost. Connected must not block, and may be nil.
	Connected func()
	// ImageChanged is called for each event about an image, with the id or name in the event. It must not block, and
	// may be nil.
	ImageChanged func(ref string)
	// ForeignChanged is called when a container that the cache does not show was created or removed, such as one of
	// `docker run`. It is called after the first relist of each connection, too. It must not block, and may be nil.
	ForeignChanged func()
}

// Cache holds the pods and containers of the node. All methods are safe for concurrent use. The package comment has
// their guarantees.
type Cache struct {
	opts Options
	// snapshot is replaced only under mu.
	snapshot atomic.Pointer[Snapshot]
	exitHook func(context.Context, *Container)
	oomHook  func(id string)

	synced       chan struct{} // closed after the first complete relist
	syncedOnce   sync.Once
	settled      chan struct{} // closed when Err is no longer ErrStarting
	settledOnce  sync.Once
	othersLogged sync.Once   // the number of pods of other criadapters is logged once
	adopted      atomic.Bool // Options.Adopt has succeeded, or is nil

	refreshes   refreshes
	execs       execWatchers
	subscribers subscribers
	progress    progress

	mu       sync.Mutex
	err      error // why the cache is not fresh, nil if it is
	heart    heartbeat
	relisted time.Time
	seq      uint64
	written  map[string]uint64 // sequence number of an id's last write, kept for removed ids too
	removed  map[string]uint64 // tombstones: the sequence number before the removal
	asks     uint64            // number of requests sent to the engine
	looks    map[string]look   // inspects by id, of published ids
	deaths   map[string]death  // ends by id that no inspect has shown
	exiting  map[string]int    // number of exit hooks by id, each from its start until the end is published
	asked    map[uint64]int    // number of requests under way, by the sequence number at which they were sent
	// reserved has the hidden containers of each reserved name by id. A value is true if the container changed in a way
	// that its creator did not cause. The creator's inspect may then be out of date.
	reserved map[string]map[string]bool
}

// New returns an empty cache, which Run fills.
func New(opts Options) *Cache {
	opts.relistPeriod = cmp.Or(opts.relistPeriod, 5*time.Minute)
	if opts.Alive == nil {
		opts.Alive = func(checkpoint.Record) (bool, error) { return false, nil }
	}
	opts.quietPeriod = cmp.Or(opts.quietPeriod, 4*time.Second)
	opts.probeTimeout = cmp.Or(opts.probeTimeout, 8*time.Second)
	if opts.ObserveEvent == nil {
		opts.ObserveEvent = func(time.Duration) {}
	}
	if opts.Connected == nil {
		opts.Connected = func() {}
	}
	if opts.ImageChanged == nil {
		opts.ImageChanged = func(string) {}
	}
	if opts.ForeignChanged == nil {
		opts.ForeignChanged = func() {}
	}
	c := &Cache{
		opts:     opts,
		synced:   make(chan struct{}),
		settled:  make(chan struct{}),
		err:      ErrStarting,
		written:  map[string]uint64{},
		removed:  map[string]uint64{},
		looks:    map[string]look{},
		deaths:   map[string]death{},
		exiting:  map[string]int{},
		asked:    map[uint64]int{},
		reserved: map[string]map[string]bool{},
	}
	c.snapshot.Store(&Snapshot{})
	c.adopted.Store(opts.Adopt == nil)
	return c
}

// OnExit sets the hook that runs before a container's exit is published. An inspect has shown the exit, or only the
// engine's event if the container was removed before an inspect. Set it before Run. The hook must have a timeout of its
// own.
func (c *Cache) OnExit(hook func(context.Context, *Container)) { c.exitHook = hook }

// OnOOM sets the hook that gets the id of a container after the first out-of-memory event of a run is published. Set it
// before Run. The hook must not block.
func (c *Cache) OnOOM(hook func(id string)) { c.oomHook = hook }

// Snapshot returns the current pods and containers.
func (c *Cache) Snapshot() *Snapshot { return c.snapshot.Load() }

// Err is nil while the engine answers and the cache follows its events. Otherwise it is the reason: an ErrUnavailable,
// or the error with which package docker refused the engine.
func (c *Cache) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.heart.hanging
}

// Relisted returns when the last complete relist ended, and the zero time before the first.
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

// PutPod publishes a pod in place of the entry with its id.
func (c *Cache) PutPod(pod Pod) {
	c.write(pod.ID, func(now *Snapshot) *Snapshot { return now.withPod(&pod) })
}

// PutContainer publishes a container in place of the entry with its id.
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

// EndPod marks a pod as not running. It is for pods without a sandbox container: the end of a sandbox container is an
// engine event.
func (c *Cache) EndPod(id string) { c.UpdatePod(id, (*PodStatus).end) }

// RemovePod removes a pod for good.
func (c *Cache) RemovePod(id string) { c.forget(id) }

// RemoveContainer removes a container for good.
func (c *Cache) RemoveContainer(id string) { c.forget(id) }

func (c *Cache) forget(id string) { c.write(id, c.forgetting(id)) }

// forgetting returns the change that removes an id from the snapshot and leaves a tombstone.
func (c *Cache) forgetting(id string) func(now *Snapshot) *Snapshot {
	return func(now *Snapshot) *Snapshot {
		delete(c.looks, id)
		delete(c.deaths, id)
		c.removed[id] = c.seq
		return now.without(id)
	}
}

// write publishes change's result, unless change returns its argument. It ignores a removed id, because the engine
// never reuses ids.
func (c *Cache) write(id string, change func(now *Snapshot) *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.removed[id]; !gone {
		c.publish(id, change)
	}
}

// publish is write for an id that is not removed. The caller holds mu.
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

// question is the moment of a request to the engine. The engine's answer may lack writes after that moment.
type question struct {
	seq    uint64 // sequence number of the last write before the request
	number uint64 // counts the requests from 1
	at     time.Time
}

// ask registers a request to the engine before it is sent. answered removes it.
func (c *Cache) ask() question {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[c.seq]++
	c.asks++
	return question{seq: c.seq, number: c.asks, at: time.Now()}
}

func (c *Cache) answered(q question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[q.seq]--; c.asked[q.seq] == 0 {
		delete(c.asked, q.seq)
	}
}

// dropTombstones drops the removed ids that no pending answer of the engine can bring back.
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

// setFresh records a complete relist.
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
