package report

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
)

// StatusOptions configure Statuses. Pods and Store are required.
type StatusOptions struct {
	// Pods is the API server.
	Pods corev1.PodsGetter
	// Store has the statuses that are to be there.
	Store *status.Store
	// Finished says whether nothing is left of a pod, so that the server may forget it. Nil means never.
	Finished func(types.UID) bool
	// Resync is how often all pods are compared with what the server shows. Zero means ten seconds, as the kubelet.
	Resync time.Duration
	// FirstPause is the time before what failed is tried again; it doubles up to LastPause. Zero means half a second and
	// ten seconds.
	FirstPause, LastPause time.Duration
	// Parallel is how many pods are worked on at once. Zero means three.
	Parallel int
}

// Statuses sends the pods' statuses to the API server. It is safe for concurrent use.
type Statuses struct {
	opts StatusOptions

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.UID] // nil unless Run runs
	told  map[types.UID]told                              // by the store's UID
	// queued is the store's pod that was queued last: while the server is away, news of one pod is no reason to try all.
	queued map[types.UID]*v1.Pod
	// seen and mirrors are the server's pods as the source of pods shows them, by the store's UIDs.
	seen, mirrors map[types.UID]*v1.Pod
}

// told is what the server was told of a pod.
type told struct {
	// pod is the store's pod whose status the server has.
	pod *v1.Pod
	// answer is the status as the server has it since.
	answer v1.PodStatus
	// gone says that the server has no such pod.
	gone bool
}

// NewStatuses makes a reporter; Run has it work.
func NewStatuses(opts StatusOptions) *Statuses {
	if opts.Finished == nil {
		opts.Finished = func(types.UID) bool { return false }
	}
	if opts.Resync == 0 {
		opts.Resync = 10 * time.Second
	}
	if opts.FirstPause == 0 {
		opts.FirstPause = 500 * time.Millisecond
	}
	if opts.LastPause == 0 {
		opts.LastPause = max(10*time.Second, opts.FirstPause)
	}
	if opts.Parallel == 0 {
		opts.Parallel = 3
	}
	return &Statuses{
		opts: opts, told: map[types.UID]told{}, queued: map[types.UID]*v1.Pod{}, seen: map[types.UID]*v1.Pod{}, mirrors: map[types.UID]*v1.Pod{},
	}
}

// Run reports until ctx ends, and returns nil then. It is called once.
func (s *Statuses) Run(ctx context.Context) error {
	changed, stop := s.opts.Store.Watch()
	defer stop()
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](s.opts.FirstPause, s.opts.LastPause))
	s.mu.Lock()
	s.queue = queue
	s.mu.Unlock()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer queue.ShutDown()
	for range s.opts.Parallel {
		workers.Go(func() { s.work(ctx, queue) })
	}
	resync := time.NewTicker(s.opts.Resync)
	defer resync.Stop()
	s.enqueue(s.isNews)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			s.enqueue(s.isNews)
		case <-resync.C:
			s.forget()
			s.enqueue(s.due)
		}
	}
}

// Wake has a pod of the store looked at soon: it has finished.
func (s *Statuses) Wake(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(uid)
}

// wake is Wake; the caller holds mu.
func (s *Statuses) wake(uid types.UID) {
	if t, ok := s.told[uid]; ok && t.gone {
		delete(s.told, uid)
	}
	if s.queue != nil {
		s.queue.Add(uid)
	}
}

// Saw takes a pod as the source of the server's pods shows it, each time it changes. The pod must not be changed
// afterwards.
func (s *Statuses) Saw(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.seen[pod.UID]
	s.seen[pod.UID] = pod
	if before == nil && s.told[pod.UID].gone {
		s.wake(pod.UID)
	}
}

// SawMirrors takes the whole set of mirror pods that the server has for this node, as the source of its pods shows it. It
// costs nothing when nothing changed. The pods must not be changed afterwards.
func (s *Statuses) SawMirrors(mirrors []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mirrors
	s.mirrors = make(map[types.UID]*v1.Pod, len(mirrors))
	for _, mirror := range mirrors {
		uid := mirrored(mirror)
		s.mirrors[uid] = mirror
		if old := before[uid]; old == nil || old.UID != mirror.UID {
			s.wake(uid)
		}
	}
}

// mirrored is the UID of the static pod that a mirror pod shows: its hash is its UID, see manifest.Static.
func mirrored(mirror *v1.Pod) types.UID {
	return types.UID(mirror.Annotations[model.AnnotationConfigMirror])
}

// enqueue queues the pods of the store that pick picks, which is called with mu held.
func (s *Statuses) enqueue(pick func(*v1.Pod) bool) {
	pods := s.opts.Store.List()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		if pick(pod) {
			s.queue.Add(pod.UID)
		}
	}
}

// isNews says whether the store has something that was not queued yet, for a pod that the server has.
func (s *Statuses) isNews(pod *v1.Pod) bool {
	if s.told[pod.UID].gone || same(s.queued[pod.UID], pod) {
		return false
	}
	s.queued[pod.UID] = pod
	return true
}

// same says whether two pods of the store, of which the first may be nil, are one to the server. Of each status that it
// takes the server makes another resource version, which alone is no reason to ask it again.
func same(old, pod *v1.Pod) bool {
	return old == pod || old != nil && (old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(old.Status, pod.Status)
}

// due says whether a pod is to be looked at without a change: the server shows another status than it had, or waits for
// the pod's end, which has come. What failed has its own time.
func (s *Statuses) due(pod *v1.Pod) bool {
	t := s.told[pod.UID]
	if t.gone || s.queue.NumRequeues(pod.UID) > 0 {
		return false
	}
	if !same(t.pod, pod) {
		return true
	}
	shown := s.shown(pod)
	if shown == nil {
		return false
	}
	return !equality.Semantic.DeepEqual(shown.Status, t.answer) || s.removable(shown)
}

// shown is the server's pod for one of the store, as it was seen last; nil for none. The caller holds mu.
func (s *Statuses) shown(pod *v1.Pod) *v1.Pod {
	if model.IsStatic(pod) {
		return s.mirrors[pod.UID]
	}
	return s.seen[pod.UID]
}

// hasMirror says whether a mirror of the static pod was seen.
func (s *Statuses) hasMirror(static *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(static) != nil
}

// removable says whether the server's pod is one that was deleted, has ended, and is shown to have ended. Mirror pods are
// not this package's to remove.
func (s *Statuses) removable(shown *v1.Pod) bool {
	return shown.DeletionTimestamp != nil && !model.IsMirror(shown) && model.Terminal(shown.Status.Phase) && s.opts.Finished(shown.UID)
}

// forget drops what is kept of pods that the store no longer has.
func (s *Statuses) forget() {
	known := map[types.UID]bool{}
	for _, pod := range s.opts.Store.List() {
		known[pod.UID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.told, func(uid types.UID, _ told) bool { return !known[uid] })
	maps.DeleteFunc(s.queued, func(uid types.UID, _ *v1.Pod) bool { return !known[uid] })
	maps.DeleteFunc(s.seen, func(uid types.UID, _ *v1.Pod) bool { return !known[uid] })
}

func (s *Statuses) note(uid types.UID, t told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[uid] = t
}
