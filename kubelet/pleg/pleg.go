package pleg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// Kind says what happened.
type Kind string

// What can happen to a container or sandbox.
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
	// ID is the container's or sandbox's.
	ID string
}

// Options configure a Generator. Runtime and Cache are required.
type Options struct {
	Runtime *cri.Runtime
	Cache   *Cache
	// Relist is the pause between two lists. Zero means a second, as the kubelet.
	Relist time.Duration
	// relistEvented is the pause while the runtime streams events. Zero means five minutes, as the kubelet.
	relistEvented time.Duration
	// NoEvents leaves the runtime's event stream alone.
	NoEvents bool
}

// Generator sends what changed. Run may be called once.
type Generator struct {
	opts   Options
	events chan Event
	hints  chan types.UID

	mu     sync.RWMutex
	listed time.Time // of the last list that was answered
	pods   map[types.UID]*cri.Pod
	stream bool

	retry map[types.UID]bool // pods whose status could not be had; only used by Run
}

// New makes a generator.
func New(opts Options) *Generator {
	if opts.Relist == 0 {
		opts.Relist = time.Second
	}
	if opts.relistEvented == 0 {
		opts.relistEvented = 5 * time.Minute
	}
	return &Generator{
		opts: opts, events: make(chan Event, 1000), hints: make(chan types.UID, 1000),
		pods: map[types.UID]*cri.Pod{}, retry: map[types.UID]bool{},
	}
}

// Events is the stream of changes. It has one reader. While that one is far behind, changes are sent at a later list.
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
	soon := true // the timer is set for the next second at the latest
	for {
		select {
		case <-ctx.Done():
			return
		case on := <-streaming:
			g.setStreaming(on)
			timer.Reset(0) // what happened while there was no stream
			soon = true
		case uid := <-g.hints:
			g.look(ctx, uid)
			if len(g.retry) > 0 && !soon {
				timer.Reset(g.opts.Relist)
				soon = true
			}
		case <-timer.C:
			if err := g.relist(ctx); err != nil && ctx.Err() == nil {
				log.G(ctx).WithError(err).Warn("relist failed: pods cannot be listed")
			}
			pause := g.pause()
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
	if g.stream && len(g.retry) == 0 && !g.listed.IsZero() {
		return g.opts.relistEvented
	}
	return g.opts.Relist
}

// Pods returns the last list, nil before the first one. It must not be changed.
func (g *Generator) Pods() map[types.UID]*cri.Pod {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.listed.IsZero() {
		return nil
	}
	return g.pods
}

// Has says whether the last list has the pod.
func (g *Generator) Has(uid types.UID) bool { return g.Pods()[uid] != nil }

// NameInUse says whether the runtime runs another pod of that full name: one whose manifest changed while no kubelet
// ran. Before the first list nobody knows, so the name counts as used.
func (g *Generator) NameInUse(fullName string, uid types.UID) bool {
	pods := g.Pods()
	if pods == nil {
		return true
	}
	for _, pod := range pods {
		if pod.UID == uid || pod.Name+"_"+pod.Namespace != fullName || !pod.Running() {
			continue
		}
		if cached := g.opts.Cache.Peek(pod.UID); cached == nil || cached.Alive() { // the list may be older
			return true
		}
	}
	return false
}

// Err says whether the runtime has not answered a list for so long that its pods are unknown.
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

// relist compares a new list with the last one.
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
			g.emit(ctx, uid, compare(uid, old[uid], nil))
		}
	}
	for uid, pod := range pods {
		g.emit(ctx, uid, compare(uid, old[uid], pod))
	}
	for uid := range g.retry {
		if old[uid] == nil && pods[uid] == nil {
			g.emit(ctx, uid, nil)
		}
	}
	g.opts.Cache.prune(pods, began)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pods, g.listed = pods, began
	return nil
}

// look compares one pod, that the runtime sent an event of, with the last list.
func (g *Generator) look(ctx context.Context, uid types.UID) {
	status, err := g.opts.Cache.Refresh(ctx, uid)
	if err != nil {
		g.retry[uid] = true
		return
	}
	pod := fromStatus(status)
	g.mu.Lock()
	old := g.pods[uid]
	next := make(map[types.UID]*cri.Pod, len(g.pods)+1)
	for key, value := range g.pods {
		next[key] = value
	}
	delete(next, uid)
	if pod != nil {
		next[uid] = pod
	}
	g.pods = next
	g.mu.Unlock()
	if pod == nil && old == nil {
		g.opts.Cache.Forget(uid)
	}
	for _, event := range compare(uid, old, pod) {
		g.send(event)
	}
}

// emit refreshes the pod's status and then sends its events: who gets one finds the change in the cache. A pod whose
// status cannot be had is tried again at the next list.
func (g *Generator) emit(ctx context.Context, uid types.UID, events []Event) {
	if len(events) == 0 && !g.retry[uid] {
		return
	}
	if _, err := g.opts.Cache.Refresh(ctx, uid); err != nil {
		g.retry[uid] = true
		log.G(ctx).WithError(err).WithField("podUID", uid).Warn("pod status cannot be read; it is tried again at the next relist")
	} else if g.retry[uid] {
		delete(g.retry, uid) // set again if it cannot be sent
		if len(events) == 0 {
			events = []Event{{UID: uid, Kind: Changed}}
		}
	}
	for _, event := range events {
		g.send(event)
	}
}

// send sends a change, or has it sent at the next list when the reader is too far behind: were it waited for, nobody
// would look at the runtime meanwhile.
func (g *Generator) send(event Event) {
	select {
	case g.events <- event:
	default:
		g.retry[event.UID] = true
	}
}
