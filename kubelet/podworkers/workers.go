package podworkers

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// PodSyncer is what is done to a pod. Calls for one pod come one after the other. What one call did must be visible to
// the next.
type PodSyncer interface {
	// SyncPod brings the pod closer to what it asks for. Ended says that it never has to run again. Again is when
	// another call makes sense at the latest, 0 for the usual time.
	SyncPod(ctx context.Context, pod *v1.Pod) (ended bool, again time.Duration, err error)
	// SyncTerminatingPod ends the pod's containers; it returns nil when none is left.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// SyncTerminatedPod removes what the pod had beside its containers.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error
	// Forget drops what is known of a pod that has ended and that no source names: a pod that gets its UID is a new
	// one. It must not block or call Workers.
	Forget(uid types.UID)
}

// Termination says how a pod ends.
type Termination struct {
	// Reason is a sentence for events.
	Reason string
	// Grace replaces the pod's termination grace period, in seconds.
	Grace *int64
	// Gone says that no source names the pod any more: it is forgotten when it has ended. Where nobody waits for its
	// end, because the API server has forgotten it already, Grace is 0: then not even a running termination goes on.
	Gone bool
	// Failure is set where the node ends the pod.
	Failure *model.Failure
}

// Options configure Workers. PodSyncer is required.
type Options struct {
	PodSyncer PodSyncer
	// Resync is the shortest time between syncs without reason; up to half of it is added. Zero means a minute, as the
	// kubelet.
	Resync time.Duration
	// Retry is the longest pause before a step that failed is tried again; the first is half a second, and it doubles.
	// Zero means ten seconds, which is the kubelet's pause.
	Retry time.Duration
	// NameInUse says whether the runtime still runs another pod of that full name, from before this process's time. Nil
	// means no.
	NameInUse func(fullName string, uid types.UID) bool
	// Ended is called for each pod that has finished, in its goroutine, when Finished says so already. It must not
	// block. Nil calls nobody.
	Ended func(pod *v1.Pod)
}

// Workers runs the pods. It is safe for concurrent use.
type Workers struct {
	opts Options
	ctx  context.Context
	wg   sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*worker
	due  map[types.UID]time.Time
}

// New makes workers whose goroutines end with ctx; Wait waits for that.
func New(ctx context.Context, opts Options) *Workers {
	if opts.Resync == 0 {
		opts.Resync = time.Minute
	}
	if opts.Retry == 0 {
		opts.Retry = 10 * time.Second
	}
	if opts.NameInUse == nil {
		opts.NameInUse = func(string, types.UID) bool { return false }
	}
	if opts.Ended == nil {
		opts.Ended = func(*v1.Pod) {}
	}
	return &Workers{opts: opts, ctx: ctx, pods: map[types.UID]*worker{}, due: map[types.UID]time.Time{}}
}

// Wait returns when all goroutines have ended after the end of New's context.
func (w *Workers) Wait() { w.wg.Wait() }

// Update wants the pod to be as it is described, and synced soon.
func (w *Workers) Update(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod.UID]
	if known == nil {
		known = w.add(pod)
	}
	switch {
	case known.termination == nil:
		known.pod = pod
	case known.termination.Gone:
		known.next = pod // the source named it again: it starts anew when it has ended
		return
	default:
		known.pod = pod
	}
	known.wake()
}

// Refresh takes a newer object of a pod whose source asks for nothing new, because only its status changed there. The
// next step gets it; nothing is done for it. A pod that is not known, or that no source named, is left out.
func (w *Workers) Refresh(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[pod.UID]; known != nil && (known.termination == nil || !known.termination.Gone) {
		known.pod = pod
	}
}

// Terminate wants the pod to end. A second call can only shorten the grace period. The steps get the pod as it is given
// here, with its deletion timestamp, unless no source names it any more.
func (w *Workers) Terminate(pod *v1.Pod, t Termination) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod.UID]
	if known == nil {
		known = w.add(pod)
	}
	if t.Gone {
		known.next = nil
	} else {
		known.pod = pod
	}
	known.terminate(t)
	if known.state == Finished {
		w.drop(known)
		return
	}
	known.wake()
}

// End wants a pod to end although its source wants it to run. It is false for one that is not known or has ended. A pod
// that ends already may get a shorter grace period by it.
func (w *Workers) End(uid types.UID, t Termination) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[uid]
	if known == nil || known.state == Terminated || known.state == Finished {
		return false
	}
	known.terminate(t)
	known.wake()
	return true
}

// add starts a pod's goroutine. The caller holds mu.
func (w *Workers) add(pod *v1.Pod) *worker {
	known := &worker{all: w, pod: pod, backoff: retryBackoff, signal: make(chan struct{}, 1), cancel: func() {}}
	w.pods[pod.UID] = known
	w.wg.Go(known.run)
	return known
}

// drop forgets a finished pod that no source names, and starts the one that waits in its place; once, though both its
// goroutine and who ends it come here. The caller holds mu.
func (w *Workers) drop(known *worker) {
	if known.termination == nil || !known.termination.Gone || w.pods[known.pod.UID] != known {
		return
	}
	delete(w.pods, known.pod.UID)
	delete(w.due, known.pod.UID)
	w.opts.PodSyncer.Forget(known.pod.UID)
	if known.next != nil {
		w.add(known.next).wake()
	}
}

// Wake has the pod synced soon, if it is known.
func (w *Workers) Wake(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		known.wake()
	}
}

// WakeAll has all pods synced soon.
func (w *Workers) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.pods {
		known.wake()
	}
}

// WakeDue has those pods synced whose time has come.
func (w *Workers) WakeDue(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, at := range w.due {
		if at.After(now) {
			continue
		}
		delete(w.due, uid)
		if known := w.pods[uid]; known != nil {
			known.wake()
		}
	}
}

// State is where a pod stands.
type State string

// The states, see the package comment.
const (
	Waiting     State = "waiting"
	Syncing     State = "syncing"
	Terminating State = "terminating"
	Terminated  State = "terminated"
	Finished    State = "finished"
)

// Pod is what Workers know of one pod.
type Pod struct {
	Pod   *v1.Pod
	State State
	// gone says that no source names it any more.
	gone bool
}

// Pods returns all pods that are known; finished ones stay until their source lets go of them.
func (w *Workers) Pods() map[types.UID]Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := make(map[types.UID]Pod, len(w.pods))
	for uid, known := range w.pods {
		pods[uid] = Pod{Pod: known.pod, State: known.stateNow(), gone: known.termination != nil && known.termination.Gone}
	}
	return pods
}

// Has says whether a pod is known: wanted, or still being ended.
func (w *Workers) Has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] != nil
}

// Pod returns a pod as its source has it now, nil where none is known.
func (w *Workers) Pod(uid types.UID) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		return known.pod
	}
	return nil
}

// Active are the pods that have not finished. One that its source no longer lists does not count, as with the kubelet:
// a static pod that is edited would lose its ports to its own past.
func (w *Workers) Active() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []*v1.Pod
	for _, known := range w.pods {
		if known.state != Finished && (known.termination == nil || !known.termination.Gone) {
			pods = append(pods, known.pod)
		}
	}
	return pods
}

// Finished says whether a pod has ended and nothing of it is left: its containers, and what PodSyncer.SyncTerminatedPod
// removes. It is false for a pod that is not known: nobody looked whether something of it runs.
func (w *Workers) Finished(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[uid]
	return known != nil && known.state == Finished
}

// Holders returns of each full name the one pod that has it: the one that is worked on, even if it only ends, before
// one that waits for its end.
func (w *Workers) Holders() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	byName := make(map[string]*worker, len(w.pods))
	for _, known := range w.pods {
		name := model.FullName(known.pod)
		if other := byName[name]; other == nil || other.state == "" || other.state == Waiting {
			byName[name] = known
		}
	}
	holders := make([]*v1.Pod, 0, len(byName))
	for _, known := range byName {
		holders = append(holders, known.pod)
	}
	return holders
}

// nameFree says whether known may start: no other pod of its full name was there before it and has not finished. The
// caller holds mu.
func (w *Workers) nameFree(known *worker) bool {
	name := model.FullName(known.pod)
	for uid, other := range w.pods {
		if uid != known.pod.UID && other.state != Finished && other.state != Waiting && other.state != "" && model.FullName(other.pod) == name {
			return false
		}
	}
	return !w.opts.NameInUse(name, known.pod.UID)
}
