package podworkers

import (
	"cmp"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// PodSyncer has the steps of a pod's life. Calls for one pod come one after the other. A call must see the effects of
// the previous call.
type PodSyncer interface {
	// SyncPod brings the pod closer to its spec. Ended says that the pod has completed. Again is the time until another
	// call makes sense, 0 for Options.Resync.
	SyncPod(ctx context.Context, pod *v1.Pod) (ended bool, again time.Duration, err error)
	// SyncTerminatingPod ends the pod's containers. It returns nil when no container is left.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// SyncTerminatedPod removes the leftovers of the pod, such as volumes and cgroups.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error
	// Forget drops the state of an ended pod that no source names: a later pod with the same UID counts as new. Forget
	// must not block or call Workers.
	Forget(uid types.UID)
}

// Termination says how a pod ends.
type Termination struct {
	// Reason is a sentence for events.
	Reason string
	// Grace replaces the pod's termination grace period, in seconds.
	Grace *int64
	// Gone says that no source names the pod any more. Workers then forgets the pod when it has ended.
	Gone bool
	// Failure is set if the node ends the pod.
	Failure *model.Failure
}

// Options configure Workers. PodSyncer is required.
type Options struct {
	PodSyncer PodSyncer
	// Resync is the pause before a sync without another cause. A random time of up to half of Resync is added. Zero
	// means a minute, as in the kubelet.
	Resync time.Duration
	// Retry is the longest pause before a failed step is repeated. The pause begins with half a second and doubles.
	// Zero means ten seconds, the kubelet's pause.
	Retry time.Duration
	// NameInUse says whether the runtime still runs another pod with this full name, which an earlier process started.
	// Nil means no.
	NameInUse func(fullName string, uid types.UID) bool
	// Ended is called for each finished pod, in the pod's goroutine. Workers.Finished is already true for the pod.
	// Ended must not block. It may be nil.
	Ended func(pod *v1.Pod)
	// Again is called for a pod that its source named again while an earlier pod with the same UID ended. The call
	// comes after Ended of the earlier pod, and before the first step of the new pod. Again must not block or call
	// Workers. It may be nil.
	Again func(pod *v1.Pod)
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

// New makes workers. Their goroutines end with ctx; Wait waits for that.
func New(ctx context.Context, opts Options) *Workers {
	opts.Resync = cmp.Or(opts.Resync, time.Minute)
	opts.Retry = cmp.Or(opts.Retry, 10*time.Second)
	if opts.NameInUse == nil {
		opts.NameInUse = func(string, types.UID) bool { return false }
	}
	if opts.Ended == nil {
		opts.Ended = func(*v1.Pod) {}
	}
	if opts.Again == nil {
		opts.Again = func(*v1.Pod) {}
	}
	return &Workers{opts: opts, ctx: ctx, pods: map[types.UID]*worker{}, due: map[types.UID]time.Time{}}
}

// Wait returns when all goroutines have ended, after the end of New's context.
func (w *Workers) Wait() { w.wg.Wait() }

// Update sets the desired pod and wakes its worker.
func (w *Workers) Update(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.add(pod)
	if known.gone() {
		known.next = pod // the source named the pod again: it runs when the earlier pod has ended
		return
	}
	known.pod = pod
	known.wake()
}

// Refresh takes a newer object of a known pod. Only the pod's status may have changed. The next step gets the object;
// Refresh does not wake the worker. Pods that no source names are ignored.
func (w *Workers) Refresh(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch known := w.pods[pod.UID]; {
	case known == nil:
	case !known.gone():
		known.pod = pod
	case known.next != nil:
		known.next = pod
	}
}

// Terminate ends the pod. A second call may shorten the grace period, and may add Gone or a Failure. The steps get this
// pod, with its deletion timestamp, unless no source names it any more. If the source names the pod again while it
// ends, and then deletes it, the pod ends again without running.
func (w *Workers) Terminate(pod *v1.Pod, t Termination) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.add(pod)
	switch {
	case t.Gone:
		known.next, known.nextEnd = nil, nil
	case known.gone():
		known.next, known.nextEnd = pod, &t
	default:
		known.pod = pod
	}
	known.terminate(t)
	if known.state == Finished {
		w.drop(known)
		return
	}
	known.wake()
}

// End ends a pod although its source wants it to run. It returns false if the pod is unknown or has ended. It may
// shorten the grace period of a pod that is ending.
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

// Clear removes the leftovers of a pod without a worker, such as volumes of an earlier process. It does nothing for a
// known pod. If a source names the pod meanwhile, the pod runs after the removal.
func (w *Workers) Clear(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods[uid] != nil {
		return
	}
	known := w.add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	known.leftover, known.state, known.termination = true, Terminated, &Termination{Gone: true}
	known.wake()
}

// Forget drops the state of a pod that has no worker and that no source names, as drop does after a pod's end. If a
// source names the pod again, the pod runs again, although its ended containers may still be in the runtime. Forget
// does nothing for a known pod.
func (w *Workers) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods[uid] == nil {
		w.opts.PodSyncer.Forget(uid)
	}
}

// add returns the pod's worker. It starts one for a pod that is not known. The caller holds mu.
func (w *Workers) add(pod *v1.Pod) *worker {
	if known := w.pods[pod.UID]; known != nil {
		return known
	}
	known := &worker{all: w, pod: pod, backoff: retryBackoff, signal: make(chan struct{}, 1), cancel: func() {}}
	w.pods[pod.UID] = known
	w.wg.Go(known.run)
	return known
}

// drop forgets a finished pod that no source names, and starts the next pod with its UID. A second call does nothing.
// The caller holds mu.
func (w *Workers) drop(known *worker) {
	if !known.gone() || w.pods[known.pod.UID] != known {
		return
	}
	delete(w.pods, known.pod.UID)
	delete(w.due, known.pod.UID)
	if !known.leftover { // leftovers may belong to a rejected pod, whose state stays
		w.opts.PodSyncer.Forget(known.pod.UID)
	}
	if known.next != nil {
		w.opts.Again(known.next)
		next := w.add(known.next)
		if known.nextEnd != nil {
			next.terminate(*known.nextEnd)
		}
		next.wake()
	}
}

// Wake makes a known pod sync soon.
func (w *Workers) Wake(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		known.wake()
	}
}

// WakeAll makes all pods sync soon.
func (w *Workers) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.pods {
		known.wake()
	}
}

// WakeDue wakes all pods that are due.
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

// State is the state of a pod.
type State string

// The states, see the package comment.
const (
	Waiting     State = "waiting"
	Syncing     State = "syncing"
	Terminating State = "terminating"
	Terminated  State = "terminated"
	Finished    State = "finished"
)

// Pod is one pod and its state.
type Pod struct {
	Pod   *v1.Pod
	State State
}

// Pods returns all known pods. Finished pods stay while their source names them.
func (w *Workers) Pods() map[types.UID]Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := make(map[types.UID]Pod, len(w.pods))
	for uid, known := range w.pods {
		if shown := known.shown(); shown != nil {
			pods[uid] = Pod{Pod: shown, State: known.stateNow()}
		}
	}
	return pods
}

// Has says whether a pod is known: a source names it, or it is being ended.
func (w *Workers) Has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] != nil
}

// Pod returns the latest object of a pod, nil if it is unknown or only its leftovers are being removed.
func (w *Workers) Pod(uid types.UID) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		return known.shown()
	}
	return nil
}

// Active lists the unfinished pods that a source names, as in the kubelet. The old version of an edited static pod is
// not among them. So the new version can use the same host ports. A pod that was named again while it ended is listed.
func (w *Workers) Active() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []*v1.Pod
	for _, known := range w.pods {
		switch {
		case known.next != nil:
			pods = append(pods, known.next)
		case known.state != Finished && !known.gone():
			pods = append(pods, known.pod)
		}
	}
	return pods
}

// Finished says whether all steps of a pod are done: its containers have ended, and its volumes and cgroup are removed.
// It is false for an unknown pod, whose containers may run.
func (w *Workers) Finished(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[uid]
	return known != nil && known.state == Finished
}

// Holders returns one pod for each full name. It prefers a running or ending pod, then a pod that waits for the name,
// then a finished pod.
func (w *Workers) Holders() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	byName := make(map[string]*worker, len(w.pods))
	for _, known := range w.pods {
		shown := known.shown()
		if shown == nil {
			continue
		}
		name := model.FullName(shown)
		if other := byName[name]; other == nil || other.hold() < known.hold() {
			byName[name] = known
		}
	}
	holders := make([]*v1.Pod, 0, len(byName))
	for _, known := range byName {
		holders = append(holders, known.shown())
	}
	return holders
}

// nameFree says whether known may start: no other worker holds its full name, and the runtime runs no other pod of that
// name. The caller holds mu.
func (w *Workers) nameFree(known *worker) bool {
	name := model.FullName(known.pod)
	for uid, other := range w.pods {
		if uid != known.pod.UID && other.state != Finished && other.state != Waiting && other.state != "" &&
			model.FullName(other.pod) == name {
			return false
		}
	}
	return !w.opts.NameInUse(name, known.pod.UID)
}
