package podworkers

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
)

// retryBackoff is the pause after consecutive failed steps, up to Options.Retry. It has no jitter: due pods are found
// once a tick, so a small jitter would often delay a step by a whole tick.
var retryBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: math.MaxInt, Cap: 10 * time.Minute}

// worker is one pod and its goroutine. Its fields are guarded by Workers.mu.
type worker struct {
	all *Workers
	// pod is the pod of the latest update.
	pod   *v1.Pod
	state State
	// termination is set when the pod is to end, and stays set.
	termination *Termination
	// next is the pod that runs with the same UID after this pod has ended. nextEnd is set if next is deleted
	// meanwhile: next then only ends.
	next    *v1.Pod
	nextEnd *Termination
	// leftover says that the worker only removes leftovers of a pod, see Workers.Clear.
	leftover bool
	// cancel cancels the running step. It does nothing if no step runs.
	cancel context.CancelFunc
	// backoff has the pause after the next failed step. A successful step resets it.
	backoff wait.Backoff
	// signal has a value while a wake-up is pending.
	signal chan struct{}
}

// shown is the pod that callers of Workers see. It is nil while the worker only removes leftovers of a pod: pod then
// has only a UID. The caller holds mu.
func (k *worker) shown() *v1.Pod {
	if k.leftover {
		return k.next
	}
	return k.pod
}

func (k *worker) wake() {
	select {
	case k.signal <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// terminate keeps the request, and cancels a step that the request makes pointless. As in the kubelet, a later request
// can only shorten the grace period. A pod without a period of its own takes the requested one. The caller holds mu.
func (k *worker) terminate(t Termination) {
	if k.termination == nil {
		k.termination = &t
		k.cancel()
		return
	}
	merged := *k.termination
	merged.Gone = merged.Gone || t.Gone
	merged.Failure = cmp.Or(merged.Failure, t.Failure)
	if merged.Grace == nil && t.Grace != nil {
		// The first request kept the pod's own grace period. The pod's latest object may have a longer deletion period.
		merged.Grace = k.pod.Spec.TerminationGracePeriodSeconds
	}
	if t.Grace != nil && (merged.Grace == nil || *t.Grace < *merged.Grace) {
		merged.Grace = t.Grace
		k.cancel()
	}
	k.termination = &merged
}

// gone says that no source names the pod any more. The caller holds mu.
func (k *worker) gone() bool { return k.termination != nil && k.termination.Gone }

// stateNow is the state of the shown pod, including the latest request to end it, which the worker may not have taken
// yet. The caller holds mu.
func (k *worker) stateNow() State {
	switch {
	case k.leftover && k.nextEnd != nil:
		return Terminating
	case k.leftover, k.state == "":
		return Waiting
	case k.termination != nil && (k.state == Waiting || k.state == Syncing):
		return Terminating
	default:
		return k.state
	}
}

// hold ranks shown pods with the same full name. The pod with the highest rank has the name. The caller holds mu.
func (k *worker) hold() int {
	switch {
	case k.state == Finished:
		return 0
	case k.leftover, k.state == "", k.state == Waiting:
		return 1
	default:
		return 2
	}
}

// run does one step per wake-up. While the pod is ending, successful steps follow each other at once.
func (k *worker) run() {
	for {
		select {
		case <-k.all.ctx.Done():
			return
		case <-k.signal:
		}
		for k.step() {
			if k.all.ctx.Err() != nil {
				return
			}
		}
		if k.finished() {
			return
		}
	}
}

// begin takes the latest update and advances the state.
func (k *worker) begin() (ctx context.Context, pod *v1.Pod, state State, t Termination) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	delete(k.all.due, k.pod.UID)
	switch {
	case k.termination != nil && (k.state == "" || k.state == Waiting || k.state == Syncing):
		k.state = Terminating
	case k.state == "" || k.state == Waiting:
		k.state = Waiting
		if k.all.nameFree(k) {
			k.state = Syncing
		}
	}
	ctx, k.cancel = context.WithCancel(k.all.ctx)
	return ctx, k.pod, k.state, ptr.Deref(k.termination, Termination{})
}

// step does the current state's step. It returns whether the next step follows at once.
func (k *worker) step() (more bool) {
	ctx, pod, state, termination := k.begin()
	defer k.locked(func() {
		k.cancel()
		k.cancel = func() {}
	})
	var err error
	switch state {
	case Waiting:
		k.again(time.Second)
		return false
	case Syncing:
		var ended bool
		var again time.Duration
		ended, again, err = k.all.opts.PodSyncer.SyncPod(ctx, pod)
		if err == nil && ended {
			k.locked(func() { k.terminate(Termination{Reason: "the pod has completed"}) })
			more = true
		} else if err == nil || again > 0 {
			k.plan(again)
		}
	case Terminating:
		if err = k.all.opts.PodSyncer.SyncTerminatingPod(ctx, pod, termination); err == nil {
			k.locked(func() { k.state = Terminated })
			more = true
		}
	case Terminated:
		if err = k.all.opts.PodSyncer.SyncTerminatedPod(ctx, pod); err == nil {
			k.locked(func() { k.state = Finished })
			k.all.opts.Ended(pod)
			return false
		}
	}
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithFields(log.Fields{"pod": model.Key(pod), "podUID": pod.UID, "state": state}).
			Error("error syncing pod; it is tried again")
		k.retry()
	} else if err == nil {
		k.locked(func() { k.backoff = retryBackoff })
	}
	// If a newer request has cancelled the step, the next step follows at once.
	return more || ctx.Err() != nil && k.all.ctx.Err() == nil
}

func (k *worker) locked(change func()) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	change()
}

// resyncJitter spreads the syncs of pods that came together: each is up to half a Resync later, as in the kubelet.
const resyncJitter = 0.5

// plan sets the next sync, after the given time or Resync.
func (k *worker) plan(again time.Duration) {
	after := wait.Jitter(k.all.opts.Resync, resyncJitter)
	if again > 0 {
		after = min(after, again)
	}
	k.again(after)
}

func (k *worker) again(after time.Duration) {
	k.locked(func() { k.all.due[k.pod.UID] = time.Now().Add(after) })
}

// retry sets the next step after a failed one, with a pause that grows. The first pause is short: the API server lets a
// node read a pod's objects only a moment after the node has the pod. A step that is due earlier stays due.
func (k *worker) retry() {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	at := time.Now().Add(min(k.backoff.Step(), k.all.opts.Retry))
	if due, planned := k.all.due[k.pod.UID]; !planned || at.Before(due) {
		k.all.due[k.pod.UID] = at
	}
}

// finished says whether the pod has finished. If so, it forgets the pod unless a source names it, and wakes the pods
// that wait for the pod's name.
func (k *worker) finished() bool {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.state != Finished {
		return false
	}
	k.all.drop(k)
	for _, other := range k.all.pods {
		if other.state == Waiting && model.FullName(other.pod) == model.FullName(k.pod) {
			other.wake()
		}
	}
	return true
}
