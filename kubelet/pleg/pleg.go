package pleg

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// Kind is the kind of a change.
type Kind string

// The changes of a container or sandbox.
const (
	Started Kind = "ContainerStarted"
	Died    Kind = "ContainerDied"
	Removed Kind = "ContainerRemoved"
	Changed Kind = "ContainerChanged"
)

// Event is a change of one container or sandbox.
type Event struct {
	UID  types.UID
	Kind Kind
	// ID is the id of the container or sandbox. It is empty if the event stands for unsent events of the pod.
	ID string
}

// Options configure a Generator. Runtime and Cache are required.
type Options struct {
	Runtime *cri.Runtime
	Cache   *Cache
	// Relist is the pause between two lists. Zero means a second, as in the kubelet.
	Relist time.Duration
	// relistEvented is the pause while the runtime streams events. Zero means five minutes, as in the kubelet.
	relistEvented time.Duration
	// NoEvents turns the runtime's event stream off.
	NoEvents bool
	// Relisted is called after a relist. began is the relist's start, and last is the start of the relist before, zero
	// without one. Relisted may be nil.
	Relisted func(began, last time.Time)
}

// Generator sends changes in the runtime as events. Run may be called once.
type Generator struct {
	opts   Options
	events chan Event
	hints  chan hint

	mu     sync.RWMutex
	listed time.Time // the time of the last successful list
	pods   map[types.UID]*cri.Pod
	stream bool

	late map[types.UID]bool // pods with an unsent event; only Run uses it
}

// New makes a generator.
func New(opts Options) *Generator {
	opts.Relist = cmp.Or(opts.Relist, time.Second)
	opts.relistEvented = cmp.Or(opts.relistEvented, 5*time.Minute)
	if opts.Relisted == nil {
		opts.Relisted = func(time.Time, time.Time) {}
	}
	return &Generator{
		opts: opts, events: make(chan Event, 1000), hints: make(chan hint, 1000),
		pods: map[types.UID]*cri.Pod{}, late: map[types.UID]bool{},
	}
}

// Events are the changes. The channel has one reader. If the reader is far behind, each pod with unsent changes gets
// one event Changed after a later list.
func (g *Generator) Events() <-chan Event { return g.events }

// Run lists and listens until ctx ends.
func (g *Generator) Run(ctx context.Context) {
	var listener sync.WaitGroup
	defer listener.Wait()
	streaming := make(chan bool)
	if !g.opts.NoEvents {
		listener.Go(func() { g.listen(ctx, streaming) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon := true // the timer fires within Relist
	for {
		select {
		case <-ctx.Done():
			return
		case on := <-streaming:
			g.setStreaming(on)
			timer.Reset(0) // to find changes that happened without a stream
			soon = true
		case h := <-g.hints:
			if taken := g.take(h); (!taken || len(g.late) > 0) && !soon {
				timer.Reset(g.opts.Relist)
				soon = true
			}
		case <-timer.C:
			pause := g.opts.Relist // also after a failure: the missed list may have a change that no event has
			if err := g.relist(ctx); err == nil {
				pause = g.pause()
			} else if ctx.Err() == nil {
				log.G(ctx).WithError(err).Warn("relist failed: pods cannot be listed")
			}
			timer.Reset(pause)
			soon = pause == g.opts.Relist
		}
	}
}

func (g *Generator) setStreaming(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stream = on
}

// Streaming says whether the runtime's event stream is open.
func (g *Generator) Streaming() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.stream
}

func (g *Generator) pause() time.Duration {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.stream && len(g.late) == 0 && !g.listed.IsZero() {
		return g.opts.relistEvented
	}
	return g.opts.Relist
}

// Pods returns the last list, nil before the first one. The caller must not change it.
func (g *Generator) Pods() map[types.UID]*cri.Pod {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.listed.IsZero() {
		return nil
	}
	return g.pods
}

// Has says whether the pod is in the last list.
func (g *Generator) Has(uid types.UID) bool { return g.Pods()[uid] != nil }

// NameInUse says whether the runtime runs another pod of that full name, such as one whose manifest changed while no
// kubelet ran. Before the first list the name counts as used.
func (g *Generator) NameInUse(fullName string, uid types.UID) bool {
	pods := g.Pods()
	if pods == nil {
		return true
	}
	for _, pod := range pods {
		if pod.UID == uid || pod.FullName() != fullName || !pod.Running() {
			continue
		}
		if cached := g.opts.Cache.Peek(pod.UID); cached == nil || cached.Alive() {
			return true
		}
	}
	return false
}

// Err returns an error if there is no list yet, or the last one is too old.
func (g *Generator) Err() error {
	const limit = 3 * time.Minute // the kubelet's
	g.mu.RLock()
	defer g.mu.RUnlock()
	allowed := limit
	if g.stream {
		allowed += g.opts.relistEvented
	}
	switch since := time.Since(g.listed); {
	case g.listed.IsZero():
		return fmt.Errorf("the runtime has not answered a list of its pods yet")
	case since > allowed:
		return fmt.Errorf("the runtime answered the last list of its pods %v ago", since.Round(time.Second))
	default:
		return nil
	}
}

// relist lists the pods, and compares them with the last list.
func (g *Generator) relist(ctx context.Context) error {
	began := time.Now()
	pods, err := g.opts.Runtime.Pods(ctx)
	if err != nil {
		return err
	}
	g.mu.RLock()
	old := g.pods
	g.mu.RUnlock()
	for uid := range old {
		if pods[uid] == nil {
			g.changed(uid, old[uid], nil)
		}
	}
	for uid, pod := range pods {
		g.changed(uid, old[uid], pod)
	}
	for uid := range g.late {
		delete(g.late, uid) // send adds it again if the reader is still behind
		g.send(Event{UID: uid, Kind: Changed})
	}
	g.opts.Cache.prune(pods, began)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opts.Relisted(began, g.listed)
	g.pods, g.listed = pods, began
	return nil
}

// take applies an event of the runtime to the last list. It ignores an event that is older than the list, and returns
// false: the event would set the pod back. Another list must follow, because the clock may have been set back between
// list and event.
func (g *Generator) take(h hint) bool {
	g.mu.Lock()
	if at := h.event.GetCreatedAt(); at != 0 && time.Unix(0, at).Before(g.listed) {
		g.mu.Unlock()
		return false
	}
	old := g.pods[h.uid]
	pod := h.applyTo(old)
	next := maps.Clone(g.pods)
	delete(next, h.uid)
	if len(pod.Sandboxes)+len(pod.Containers) > 0 {
		next[h.uid] = pod
	}
	g.pods = next
	g.mu.Unlock()
	g.changed(h.uid, old, pod)
	return true
}

// changed sends the changes of a pod between two lists. The cache gets the changes first, so that a reader of an event
// finds them there.
func (g *Generator) changed(uid types.UID, before, after *cri.Pod) {
	events := compare(uid, before, after)
	if len(events) == 0 {
		return
	}
	g.opts.Cache.note(uid, before, after)
	for _, event := range events {
		g.send(event)
	}
}

// send sends an event. If the reader is too far behind, the event is dropped: Run must not wait for the reader. An
// event Changed of its pod follows after the next list.
func (g *Generator) send(event Event) {
	select {
	case g.events <- event:
	default:
		g.late[event.UID] = true
	}
}
