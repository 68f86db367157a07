package state

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

// subscriberQueue is how many changes a subscriber may be behind before it is
// cut off: a node full of pods that all end at once.
const subscriberQueue = 1024

// ChangeType says what has happened to a pod or a container.
type ChangeType int

// What can happen. A pod is created and started when it is published, its network complete.
const (
	Created ChangeType = iota
	Started
	Stopped
	Deleted
)

// String is the type's name in lower case.
func (t ChangeType) String() string {
	switch t {
	case Created:
		return "created"
	case Started:
		return "started"
	case Stopped:
		return "stopped"
	case Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("ChangeType(%d)", int(t))
	}
}

// Change is one thing that has happened to a pod or a container, with the pod
// as it was published by then. It is immutable.
type Change struct {
	Type ChangeType
	// ID is the container's id, or the sandbox's for a change of the pod itself.
	ID string
	// Time is when the change was published.
	Time time.Time
	// Pod is the pod that ID is or belongs to. A deleted one is as it was last;
	// a container's is nil when nobody knows it (any more).
	Pod *Pod
	// Containers are the pod's, the newest first, without deleted ones.
	Containers []*Container
}

// Subscription receives the changes of a cache, see Cache.Subscribe. Next is
// for one goroutine at a time; Close and CutOff are for any.
type Subscription struct {
	cache   *Cache
	changes chan Change
	cutOff  chan struct{} // closed by the cache when changes is full
}

// subscribers are those who want to hear of changes.
type subscribers struct {
	mu  sync.Mutex
	all map[*Subscription]struct{}
}

// Subscribe returns a subscription to every change that is published from now on, in the order of the snapshots:
// whoever takes a snapshot after receiving a change finds it or something newer in it. Nobody waits for a subscriber;
// one that falls too far behind is cut off. The caller must Close it.
func (c *Cache) Subscribe() *Subscription {
	s := &Subscription{cache: c, changes: make(chan Change, subscriberQueue), cutOff: make(chan struct{})}
	// Under the writer's lock, so that no change is half subscribed to.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers.add(s)
	return s
}

// Next waits for the next change. It fails with ctx's error, and with ErrResourceExhausted once the subscription was
// cut off: changes were lost, and the subscriber has to subscribe and list again.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	select {
	case <-s.cutOff:
		return Change{}, fmt.Errorf("more than %d events are waiting to be read, subscribe again and list: %w", subscriberQueue, errdefs.ErrResourceExhausted)
	default:
	}
	select {
	case change := <-s.changes:
		return change, nil
	case <-ctx.Done():
		return Change{}, ctx.Err()
	}
}

// CutOff is closed when the subscriber was too slow. Next tells so, too; this is for one that cannot get round to it.
func (s *Subscription) CutOff() <-chan struct{} { return s.cutOff }

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() { s.cache.subscribers.drop(s) }

func (s *subscribers) add(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*Subscription]struct{}{}
	}
	s.all[sub] = struct{}{}
}

func (s *subscribers) drop(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sub)
}

func (s *subscribers) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) == 0
}

// send gives a change to everyone and never waits.
func (s *subscribers) send(change Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.all {
		select {
		case sub.changes <- change:
		default:
			delete(s.all, sub)
			close(sub.cutOff)
		}
	}
}

// notify sends what has become of an entry between two snapshots. The caller holds mu.
func (c *Cache) notify(id string, before, after *Snapshot) {
	if c.subscribers.none() {
		return
	}
	types, pod := changes(id, before, after)
	if len(types) == 0 {
		return
	}
	change := Change{ID: id, Time: time.Now(), Pod: pod}
	if pod != nil {
		change.Containers = after.ContainersOf(pod.ID)
	}
	for _, change.Type = range types {
		c.subscribers.send(change)
	}
}

// changes returns what has happened to an entry, and its pod.
func changes(id string, before, after *Snapshot) ([]ChangeType, *Pod) {
	if old, pod := before.pod(id), after.pod(id); pod != nil {
		return transitions(podPhase(old), podPhase(pod)), pod
	} else if old != nil {
		return transitions(podPhase(old), phase{}), lastOf(old)
	}
	old, c := before.container(id), after.container(id)
	if old == nil && c == nil {
		return nil, nil
	}
	return transitions(containerPhase(old), containerPhase(c)), after.pod(cmp.Or(c, old).SandboxID)
}

// lastOf is a pod that was removed: whatever it did, it does no more.
func lastOf(old *Pod) *Pod {
	last := *old
	last.Status.Running, last.Status.PID = false, 0
	return &last
}

// phase is how far an entry has come in its life.
type phase struct {
	exists, running   bool
	started, finished time.Time
}

func podPhase(p *Pod) phase {
	if p == nil {
		return phase{}
	}
	return phase{true, p.Status.Running, p.Status.StartedAt, p.Status.finishedAt}
}

func containerPhase(c *Container) phase {
	if c == nil {
		return phase{}
	}
	return phase{true, c.Status.Running, c.Status.StartedAt, c.Status.FinishedAt}
}

// ended reports whether the entry has run, or tried to, and does no more.
func (p phase) ended() bool { return p.exists && !p.running && !p.finished.IsZero() }

// tried reports whether the entry's start failed: it ended when it began.
func (p phase) tried() bool { return p.ended() && p.started.Equal(p.finished) }

// transitions returns what must have happened between two looks at an entry,
// in its order; what came and went between them is told as well.
func transitions(old, now phase) []ChangeType {
	var types []ChangeType
	if !old.exists && now.exists {
		types = append(types, Created)
	}
	again := old.exists && now.exists && !old.started.Equal(now.started)
	if old.running && (!now.running || again) {
		types = append(types, Stopped)
	}
	missed := now.ended() && !old.running && (!old.ended() || again)
	if now.running && (!old.running || again) || missed && !now.tried() {
		types = append(types, Started)
	}
	if missed {
		types = append(types, Stopped)
	}
	if old.exists && !now.exists {
		types = append(types, Deleted)
	}
	return types
}
