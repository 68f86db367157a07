package state

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// ErrStarting is what Mirror.Err returns from the start to the first complete
// relist, as long as nothing has gone wrong. It is an errdefs.ErrUnavailable.
var ErrStarting = fmt.Errorf("the engine's containers are still being read, try again: %w", errdefs.ErrUnavailable)

// Records is what the mirror reads of the checkpoint store.
type Records interface {
	// Load returns the record of a pod; errdefs.ErrNotFound when there is none.
	Load(sandboxID string) (checkpoint.Record, error)
	// List returns all records that can be read.
	List() ([]checkpoint.Record, []checkpoint.Quarantined, error)
}

// Options are what a Mirror needs.
type Options struct {
	Engine  docker.Engine
	Records Records
	// RootDirectory, when not empty, is the root directory of this criadapter:
	// what carries the mark of another one is left out, unless Records holds
	// its pod, as after the folder was moved.
	RootDirectory string
	// RelistPeriod is the time between two full relists on a healthy
	// connection, 5 minutes when zero.
	RelistPeriod time.Duration
	// ObserveEvent, when not nil, is told of every event of the engine how late it
	// came.
	ObserveEvent func(lag time.Duration)
}

// Mirror holds the pods and containers of the node. All methods are safe for
// concurrent use; see the package comment for what they guarantee.
type Mirror struct {
	opts     Options
	snapshot atomic.Pointer[Snapshot]
	exitHook func(context.Context, *Container)

	synced     chan struct{} // closed after the first complete relist
	syncedOnce sync.Once
	othersTold sync.Once // how many pods of others there are

	refreshes   refreshes
	execs       execWatchers
	subscribers subscribers

	mu         sync.Mutex
	err        error // why the mirror is not fresh, nil when it is
	relisted   time.Time
	seq        uint64
	pods       map[string]*Pod
	containers map[string]*Container
	written    map[string]uint64 // sequence number of an id's last write, kept for removed ids too
	removed    map[string]uint64 // tombstones: the sequence number before the removal
	asks       uint64            // how many questions the engine was asked
	looks      map[string]look   // at the ids that are known
	asked      map[uint64]int    // how many answers are under way that were asked for at a sequence number
	reserved   map[string]*reservation
}

// New makes an empty mirror; Run fills it.
func New(opts Options) *Mirror {
	if opts.RelistPeriod == 0 {
		opts.RelistPeriod = 5 * time.Minute
	}
	if opts.ObserveEvent == nil {
		opts.ObserveEvent = func(time.Duration) {}
	}
	m := &Mirror{
		opts:       opts,
		synced:     make(chan struct{}),
		err:        ErrStarting,
		pods:       map[string]*Pod{},
		containers: map[string]*Container{},
		written:    map[string]uint64{},
		removed:    map[string]uint64{},
		looks:      map[string]look{},
		asked:      map[uint64]int{},
		reserved:   map[string]*reservation{},
	}
	m.snapshot.Store(&Snapshot{})
	return m
}

// OnExit sets the hook that runs between the inspect that found a container
// exited and the publication of its exit. It must be set before Run and must
// bound itself.
func (m *Mirror) OnExit(hook func(context.Context, *Container)) { m.exitHook = hook }

// Snapshot returns the node as it is now.
func (m *Mirror) Snapshot() *Snapshot { return m.snapshot.Load() }

// Err is nil while the engine answers and the mirror follows it; otherwise it
// says why not, typed ErrUnavailable or as the engine room refused the engine.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Relisted returns when the last complete relist ended, the zero time before the
// first. What has changed since then is known from events.
func (m *Mirror) Relisted() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relisted
}

// WaitSynced waits for the first complete relist.
func (m *Mirror) WaitSynced(ctx context.Context) error {
	select {
	case <-m.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// PutPod publishes a pod, replacing what was known of its id.
func (m *Mirror) PutPod(p Pod) {
	m.write(p.ID, func() bool { m.pods[p.ID] = &p; return true })
}

// PutContainer publishes a container, replacing what was known of its id.
func (m *Mirror) PutContainer(c Container) {
	m.write(c.ID, func() bool { m.containers[c.ID] = &c; return true })
}

// UpdatePod changes a pod's status. It does nothing for an unknown id.
func (m *Mirror) UpdatePod(id string, change func(*PodStatus)) {
	m.write(id, func() bool {
		old, ok := m.pods[id]
		if ok {
			pod := *old
			change(&pod.Status)
			m.pods[id] = &pod
		}
		return ok
	})
}

// UpdateContainer changes a container's status. It does nothing for an unknown
// id.
func (m *Mirror) UpdateContainer(id string, change func(*ContainerStatus)) {
	m.write(id, func() bool {
		old, ok := m.containers[id]
		if ok {
			container := *old
			change(&container.Status)
			m.containers[id] = &container
		}
		return ok
	})
}

// RemovePod forgets a pod for good.
func (m *Mirror) RemovePod(id string) { m.forget(id) }

// RemoveContainer forgets a container for good.
func (m *Mirror) RemoveContainer(id string) { m.forget(id) }

func (m *Mirror) forget(id string) {
	m.write(id, func() bool {
		delete(m.pods, id)
		delete(m.containers, id)
		delete(m.looks, id)
		m.removed[id] = m.seq
		return true
	})
}

// write makes one change and publishes it, unless change reports that there is
// none. A write to a removed id is lost: the engine never uses an id twice.
func (m *Mirror) write(id string, change func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, gone := m.removed[id]; gone {
		return
	}
	if change() {
		m.publish(id)
	}
}

// publish shows the change that was made to an entry. The caller holds mu.
func (m *Mirror) publish(id string) {
	m.seq++
	m.written[id] = m.seq
	before := m.snapshot.Load()
	after := before.with(id, m.pods[id], m.containers[id])
	m.snapshot.Store(after)
	m.tell(id, before, after)
}

// question is a moment at which the engine was asked: what was written or asked
// later than that, the answer may not know.
type question struct {
	seq    uint64 // of the last write by then
	number uint64 // of the question among all
}

// ask is called before the engine is asked; answered ends the question.
func (m *Mirror) ask() question {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[m.seq]++
	m.asks++
	return question{seq: m.seq, number: m.asks}
}

func (m *Mirror) answered(q question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked[q.seq]--; m.asked[q.seq] == 0 {
		delete(m.asked, q.seq)
	}
}

// dropTombstones forgets the removed ids that no answer under way can bring
// back.
func (m *Mirror) dropTombstones() {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := m.seq
	for seq := range m.asked {
		oldest = min(oldest, seq)
	}
	for id, removed := range m.removed {
		if removed < oldest {
			delete(m.removed, id)
			delete(m.written, id)
		}
	}
}

// setFresh notes a complete relist.
func (m *Mirror) setFresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.relisted = nil, time.Now()
}

func (m *Mirror) setErr(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}
