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

// StatusOptions configure a StatusSyncer. Pods and Store are required.
type StatusOptions struct {
	// Pods is the API server.
	Pods corev1.PodsGetter
	// Store has the statuses that are to be there.
	Store *status.Manager
	// Finished says whether nothing is left of a pod, so that the server may forget it. Nil means never.
	Finished func(types.UID) bool
	// resync is how often all pods are compared with what the server shows. Zero means ten seconds, as the kubelet.
	resync time.Duration
	// firstPause is the time before what failed is tried again; it doubles up to lastPause. Zero means half a second
	// and ten seconds.
	firstPause, lastPause time.Duration
	// parallel is how many pods are worked on at once. Zero means three.
	parallel int
}

// StatusSyncer sends the pods' statuses to the API server. It is safe for concurrent use.
type StatusSyncer struct {
	opts StatusOptions

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.UID] // nil unless Run runs
	sent  map[types.UID]sentStatus                        // by the store's UID
	// queued is the store's pod that was queued last: while the server is away, changes of one pod are no reason to
	// try all.
	queued map[types.UID]*v1.Pod
	// observed and mirrors are the server's pods as the source of pods shows them, by the store's UIDs.
	observed, mirrors map[types.UID]*v1.Pod
}

// sentStatus is what the server has of a pod.
type sentStatus struct {
	// pod is the store's pod whose status the server has.
	pod *v1.Pod
	// answer is the status as the server has it since.
	answer v1.PodStatus
	// gone says that the server has no such pod.
	gone bool
}

// NewStatusSyncer makes a syncer; Run has it work.
func NewStatusSyncer(opts StatusOptions) *StatusSyncer {
	if opts.Finished == nil {
		opts.Finished = func(types.UID) bool { return false }
	}
	if opts.resync == 0 {
		opts.resync = 10 * time.Second
	}
	if opts.firstPause == 0 {
		opts.firstPause = 500 * time.Millisecond
	}
	if opts.lastPause == 0 {
		opts.lastPause = max(10*time.Second, opts.firstPause)
	}
	if opts.parallel == 0 {
		opts.parallel = 3
	}
	return &StatusSyncer{
		opts: opts, sent: map[types.UID]sentStatus{}, queued: map[types.UID]*v1.Pod{}, observed: map[types.UID]*v1.Pod{}, mirrors: map[types.UID]*v1.Pod{},
	}
}

// Run reports until ctx ends, and returns nil then. It is called once.
func (s *StatusSyncer) Run(ctx context.Context) error {
	changed, stop := s.opts.Store.Watch()
	defer stop()
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](s.opts.firstPause, s.opts.lastPause))
	s.mu.Lock()
	s.queue = queue
	s.mu.Unlock()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer queue.ShutDown()
	for range s.opts.parallel {
		workers.Go(func() { s.work(ctx, queue) })
	}
	resync := time.NewTicker(s.opts.resync)
	defer resync.Stop()
	s.enqueue(s.isUnsent)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			s.enqueue(s.isUnsent)
		case <-resync.C:
			s.forget()
			s.enqueue(s.due)
		}
	}
}

// Wake has a pod of the store looked at soon: it has finished.
func (s *StatusSyncer) Wake(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(uid)
}

// wake is Wake; the caller holds mu.
func (s *StatusSyncer) wake(uid types.UID) {
	if t, ok := s.sent[uid]; ok && t.gone {
		delete(s.sent, uid)
	}
	if s.queue != nil {
		s.queue.Add(uid)
	}
}

// ObservePod takes a pod as the source of the server's pods shows it, each time it changes. The pod must not be changed
// afterwards.
func (s *StatusSyncer) ObservePod(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.observed[pod.UID]
	s.observed[pod.UID] = pod
	if before == nil && s.sent[pod.UID].gone {
		s.wake(pod.UID)
	}
}

// ObserveMirrorPods takes the whole set of mirror pods that the server has for this node, as the source of its pods
// shows it. It costs nothing when nothing changed. The pods must not be changed afterwards.
func (s *StatusSyncer) ObserveMirrorPods(mirrors []*v1.Pod) {
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
func (s *StatusSyncer) enqueue(pick func(*v1.Pod) bool) {
	pods := s.opts.Store.List()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		if pick(pod) {
			s.queue.Add(pod.UID)
		}
	}
}

// isUnsent says whether the store has something that was not queued yet, for a pod that the server has.
func (s *StatusSyncer) isUnsent(pod *v1.Pod) bool {
	if s.sent[pod.UID].gone || s.opts.Store.Held(pod.UID) || same(s.queued[pod.UID], pod) {
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
func (s *StatusSyncer) due(pod *v1.Pod) bool {
	t := s.sent[pod.UID]
	if t.gone || s.opts.Store.Held(pod.UID) || s.queue.NumRequeues(pod.UID) > 0 {
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

// shown is the server's pod for one of the store, as the source showed it last; nil for none. The caller holds mu.
func (s *StatusSyncer) shown(pod *v1.Pod) *v1.Pod {
	if model.IsStatic(pod) {
		return s.mirrors[pod.UID]
	}
	return s.observed[pod.UID]
}

// hasMirror says whether a mirror of the static pod was observed.
func (s *StatusSyncer) hasMirror(static *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(static) != nil
}

// removable says whether the server's pod is one that was deleted, has ended, and is shown to have ended. Mirror pods
// are not this package's to remove.
func (s *StatusSyncer) removable(shown *v1.Pod) bool {
	return shown.DeletionTimestamp != nil && !model.IsMirror(shown) && model.Terminal(shown.Status.Phase) && s.opts.Finished(shown.UID)
}

// forget drops what is kept of pods that the store no longer has.
func (s *StatusSyncer) forget() {
	known := map[types.UID]bool{}
	for _, pod := range s.opts.Store.List() {
		known[pod.UID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sent, func(uid types.UID, _ sentStatus) bool { return !known[uid] })
	maps.DeleteFunc(s.queued, func(uid types.UID, _ *v1.Pod) bool { return !known[uid] })
	maps.DeleteFunc(s.observed, func(uid types.UID, _ *v1.Pod) bool { return !known[uid] })
}

func (s *StatusSyncer) note(uid types.UID, t sentStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[uid] = t
}
