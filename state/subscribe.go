package state

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

// subscriberQueue is the number of unread changes after which a subscriber is cut off. It allows for a full node whose
// pods all end at once.
const subscriberQueue = 1024

// ChangeType is the kind of a Change.
type ChangeType int

// The kinds of changes. A pod is created and started when it is published with a complete network. It is stopped when
// its sandbox has ended or its network is lost, but not when StopPodSandbox begins.
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

// Change is one change of a pod or a container. It is immutable.
type Change struct {
	Type ChangeType
	// ID is the container's id, or the sandbox's id for a change of the pod.
	ID string
	// Time is when the change was published.
	Time time.Time
	// Pod is the pod with ID, or the pod of the container with ID. A deleted pod is shown in its last state. Pod is nil
	// if the container's pod is unknown.
	Pod *Pod
	// Containers are the pod's containers without deleted ones, the newest first.
	Containers []*Container
}

// Subscription receives the changes of a cache, see Cache.Subscribe. Only one goroutine at a time may call Next. Close
// and CutOff are safe for concurrent use.
type Subscription struct {
	cache   *Cache
	changes chan Change
	cutOff  chan struct{} // the cache closes it when changes is full
}

// subscribers are the open subscriptions.
type subscribers struct {
	mu  sync.Mutex
	all map[*Subscription]struct{}
}

// Subscribe returns a subscription to all changes from now on, in the order of the snapshots. A snapshot taken after
// receiving a change contains it or a newer state. Writers never wait for a subscriber: a slow one is cut off. The
// caller must Close it.
func (c *Cache) Subscribe() *Subscription {
	s := &Subscription{cache: c, changes: make(chan Change, subscriberQueue), cutOff: make(chan struct{})}
	c.mu.Lock() // the writers' lock, so that all changes of a write are received or none
	defer c.mu.Unlock()
	c.subscribers.add(s)
	return s
}

// Next waits for the next change. It fails with ctx's error. It fails with ErrResourceExhausted if the subscription was
// cut off: changes were lost, and the subscriber must subscribe and list again.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	select {
	case <-s.cutOff:
		return Change{}, fmt.Errorf("more than %d events are waiting to be read, subscribe again and list: %w",
			subscriberQueue, errdefs.ErrResourceExhausted)
	default:
	}
	select {
	case change := <-s.changes:
		return change, nil
	case <-ctx.Done():
		return Change{}, ctx.Err()
	}
}

// CutOff is closed when the subscriber was too slow. It is for a subscriber that is too busy to call Next.
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

// send sends a change to all subscribers and never waits.
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

// notify sends an entry's changes between two snapshots. The caller holds mu.
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

// changes returns an entry's changes between two snapshots, and its pod.
func changes(id string, before, after *Snapshot) ([]ChangeType, *Pod) {
	if old, pod := before.pod(id), after.pod(id); pod != nil {
		return podTransitions(old, pod), pod
	} else if old != nil {
		return podTransitions(old, nil), lastOf(old)
	}
	old, c := before.container(id), after.container(id)
	if old == nil && c == nil {
		return nil, nil
	}
	return transitions(old, c), after.pod(cmp.Or(c, old).SandboxID)
}

// lastOf returns the last state of a removed pod, marked as not running.
func lastOf(old *Pod) *Pod {
	last := *old
	last.Status.Running, last.Status.PID = false, 0
	return &last
}

// Ended reports whether the pod has exited or failed to start. It is false for a pod that waits for its start, and for
// nil.
func (p *Pod) Ended() bool { return p != nil && !p.Status.Running && !p.Status.finishedAt.IsZero() }

// podTransitions returns the changes between two states of a pod in their order. Either may be nil. A start is only
// sent for a connected pod: the kubelet takes the event of a start for a working sandbox.
func podTransitions(old, now *Pod) []ChangeType {
	was, is := old.connected(), now.connected()
	// A pod without a start time was shown by its record alone, so a start time is no second start.
	again := was && is && !old.Status.StartedAt.IsZero() && !old.Status.StartedAt.Equal(now.Status.StartedAt)
	var types []ChangeType
	if old == nil && now != nil {
		types = append(types, Created)
	}
	if was && !is || again || !was && now.Ended() && !old.Ended() {
		types = append(types, Stopped)
	}
	if is && !was || again {
		types = append(types, Started)
	}
	if old != nil && now == nil {
		types = append(types, Deleted)
	}
	return types
}

// connected reports whether the pod's sandbox runs with a complete network. It is false for nil.
func (p *Pod) connected() bool { return p != nil && p.Status.Running && p.Status.NetworkReady }

// ended reports whether the container has exited or failed to start. It is false for nil.
func (c *Container) ended() bool {
	return c != nil && !c.Status.Running && !c.Status.FinishedAt.IsZero()
}

// transitions returns the changes between two states of a container in their order. Either may be nil. A run that began
// and ended between them counts, too.
func transitions(old, now *Container) []ChangeType {
	var types []ChangeType
	if old == nil && now != nil {
		types = append(types, Created)
	}
	was, is := old != nil && old.Status.Running, now != nil && now.Status.Running
	again := old != nil && now != nil && !old.Status.StartedAt.Equal(now.Status.StartedAt)
	if was && (!is || again) {
		types = append(types, Stopped)
	}
	missed := now.ended() && !was && (!old.ended() || again)
	// A failed start has the same time for start and end, and is not sent as Started.
	if is && (!was || again) || missed && !now.Status.StartedAt.Equal(now.Status.FinishedAt) {
		types = append(types, Started)
	}
	if missed {
		types = append(types, Stopped)
	}
	if old != nil && now == nil {
		types = append(types, Deleted)
	}
	return types
}
