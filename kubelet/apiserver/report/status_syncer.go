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
	// Store has the wanted statuses.
	Store *status.Manager
}

const (
	// The pause before a retry doubles from firstPause to lastPause.
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
	// resyncPeriod is the time between two comparisons of all pods with the API server, as in the kubelet.
	resyncPeriod = 10 * time.Second
	// statusWorkers is the number of pods that are synced in parallel.
	statusWorkers = 3
)

// StatusSyncer sends the pods' statuses to the API server. It is safe for concurrent use.
type StatusSyncer struct {
	opts     StatusOptions
	finished func(types.UID) bool // set by Run

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.UID] // nil before Run
	sent  map[types.UID]sentStatus                        // by the store's UID
	// queued has the store's pods as they were queued last. While the API server is away, a change of one pod must not
	// queue all pods.
	queued map[types.UID]*v1.Pod
	// observed and mirrors have the API server's pods as the pod source showed them, by the store's UIDs.
	observed, mirrors map[types.UID]*v1.Pod
}

// sentStatus is the last status that the API server accepted for a pod.
type sentStatus struct {
	// pod is the store's pod with that status.
	pod *v1.Pod
	// answer is the status in the API server's answer.
	answer v1.PodStatus
	// gone says that the API server has no such pod.
	gone bool
}

// NewStatusSyncer makes a syncer. Nothing is sent before Run.
func NewStatusSyncer(opts StatusOptions) *StatusSyncer {
	return &StatusSyncer{
		opts: opts, sent: map[types.UID]sentStatus{}, queued: map[types.UID]*v1.Pod{},
		observed: map[types.UID]*v1.Pod{}, mirrors: map[types.UID]*v1.Pod{},
	}
}

// Run reports statuses until ctx ends, and then returns nil. It is called once. Finished reports whether nothing of a
// pod is left on this node: then the API server may remove the pod.
func (s *StatusSyncer) Run(ctx context.Context, finished func(types.UID) bool) error {
	s.finished = finished
	changed, stop := s.opts.Store.Watch()
	defer stop()
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstPause, lastPause))
	s.mu.Lock()
	s.queue = queue
	s.mu.Unlock()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer queue.ShutDown()
	for range statusWorkers {
		workers.Go(func() { s.work(ctx, queue) })
	}
	resync := time.NewTicker(resyncPeriod)
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

// Wake queues a pod of the store because it has finished.
func (s *StatusSyncer) Wake(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(uid)
}

// wake is like Wake. The caller holds mu.
func (s *StatusSyncer) wake(uid types.UID) {
	if t, ok := s.sent[uid]; ok && t.gone {
		delete(s.sent, uid)
	}
	if s.queue != nil {
		s.queue.Add(uid)
	}
}

// ObservePod takes a pod as the API server has it. The pod source calls it for each change. The pod must not be changed
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

// ObserveMirrorPods takes all of this node's mirror pods on the API server. A call without a change is cheap. The pods
// must not be changed afterwards.
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

// mirrored returns the UID of a mirror pod's static pod, which is the static pod's hash (see manifest.Static).
func mirrored(mirror *v1.Pod) types.UID {
	return types.UID(mirror.Annotations[model.AnnotationConfigMirror])
}

// enqueue queues the pods of the store for which pick returns true. It calls pick with mu held.
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

// isUnsent reports whether a pod's status changed since the pod was queued last, and the API server may have the pod.
// If so, isUnsent notes the pod as queued.
func (s *StatusSyncer) isUnsent(pod *v1.Pod) bool {
	if s.sent[pod.UID].gone || s.opts.Store.Held(pod.UID) || same(s.queued[pod.UID], pod) {
		return false
	}
	s.queued[pod.UID] = pod
	return true
}

// same reports whether two versions of a pod need no new request. Old may be nil. same ignores the resource version,
// which changes with each status that the API server accepts.
func same(old, pod *v1.Pod) bool {
	return old == pod || old != nil && (old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(old.Status, pod.Status)
}

// due reports whether a pod must be synced although it was not queued. The reason is an unsent status, a status that
// another client changed, or a pod that can be removed. A pod whose last sync failed has its own retry time.
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

// shown returns the API server's pod for a pod of the store, as the pod source showed it last, or nil. The caller holds
// mu.
func (s *StatusSyncer) shown(pod *v1.Pod) *v1.Pod {
	if model.IsStatic(pod) {
		return s.mirrors[pod.UID]
	}
	return s.observed[pod.UID]
}

// hasMirror reports whether a mirror pod of the static pod was observed.
func (s *StatusSyncer) hasMirror(static *v1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(static) != nil
}

// removable reports whether the API server's pod was deleted, has finished on this node, and has a terminal phase.
// Package mirrorpod removes mirror pods.
func (s *StatusSyncer) removable(shown *v1.Pod) bool {
	return shown.DeletionTimestamp != nil && !model.IsMirror(shown) && model.Terminal(shown.Status.Phase) &&
		s.finished(shown.UID)
}

// forget drops the entries of pods that the store no longer has.
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
