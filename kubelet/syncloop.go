package kubelet

import (
	"context"
	"math"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/userns"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// notReadyBackoff is how long the loop rests while the runtime is not ready.
var notReadyBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 5 * time.Second,
}

// syncLoop takes one thing after the other from all that can ask for work, and hands it to the pods' workers.
type syncLoop struct {
	// tick is how often due pods are looked for, housekeeping how often leftovers.
	tick, housekeeping time.Duration
	hostIPs            []string
	runtimeErr         func() error
	monitor            loopMonitor

	config   *podconfig.PodConfig
	objects  *podconfig.Objects
	pleg     *pleg.Generator
	prober   *prober.Manager
	cache    *pleg.Cache
	workers  *podworkers.Workers
	admitter *admission.Admitter
	rejected *admission.Rejections
	cleaner  *housekeeping.Cleaner
	cluster  *apiserver.Cluster
	status   *status.Manager
	events   *events.Recorder

	allocation *allocation.Manager
	userIDs    *userns.Manager
}

// run takes work until ctx ends. While the runtime is not ready it rests, and all pods stay as they are.
func (l *syncLoop) run(ctx context.Context) {
	tick := time.NewTicker(l.tick)
	defer tick.Stop()
	clean := time.NewTicker(l.housekeeping)
	defer clean.Stop()
	backoff := notReadyBackoff
	for ctx.Err() == nil {
		if err := l.runtimeErr(); err != nil {
			log.G(ctx).WithError(err).Debug("pods are left alone while the runtime is not ready")
			select {
			case <-ctx.Done():
			case <-time.After(backoff.Step()):
			}
			continue
		}
		backoff = notReadyBackoff
		l.monitor.enter()
		l.next(ctx, tick.C, clean.C)
	}
}

// next waits for one thing and hands it on.
func (l *syncLoop) next(ctx context.Context, tick, clean <-chan time.Time) {
	select {
	case <-ctx.Done():
	case update := <-l.config.Updates():
		l.handleUpdate(ctx, update)
	case event := <-l.pleg.Events():
		l.handleEvent(ctx, event)
	case uid := <-l.prober.Changed():
		l.workers.Wake(uid)
	case changed := <-l.objects.Changed():
		l.wakeUsers(changed)
	case changed := <-l.cluster.ObjectsChanged():
		l.wakeUsers(changed)
	case now := <-tick:
		l.workers.WakeDue(now)
	case <-clean:
		l.cleaner.Clean(ctx)
		l.retryResizes()
		l.forgetAllocations(ctx)
		l.cluster.ReconcileMirrorPods(l.config)
	}
}

// wakeUsers has those pods synced that name a changed object.
func (l *syncLoop) wakeUsers(changed map[volumekinds.Object]bool) {
	for uid, known := range l.workers.Pods() {
		for object := range volumekinds.ObjectsOf(known.Pod) {
			if changed[object] {
				l.workers.Wake(uid)
				break
			}
		}
	}
}

// handleUpdate takes a change of what is wanted.
func (l *syncLoop) handleUpdate(ctx context.Context, update podconfig.PodUpdate) {
	if update.Op == podconfig.Add {
		l.admitter.Sort(update.Pods)
	}
	log.G(ctx).WithFields(log.Fields{"source": update.Source, "pods": model.Keys(update.Pods)}).Info("SyncLoop " + string(update.Op)) // as in the kubelet's log
	err := l.allocation.Batch(func() {
		for _, pod := range update.Pods {
			if update.Source == model.SourceAPI && update.Op != podconfig.Remove {
				l.cluster.ObservePod(pod)
			}
			l.dispatch(ctx, update.Op, pod)
		}
	})
	if err != nil {
		log.G(ctx).WithError(err).Warn("allocated resources of new pods are not on the disk")
	}
	l.cluster.ReconcileMirrorPods(l.config)
}

// dispatch hands a pod's worker what is wanted of the pod. A pod that was rejected can only go.
func (l *syncLoop) dispatch(ctx context.Context, op podconfig.PodOperation, pod *v1.Pod) {
	if l.rejected.Has(pod.UID) && op != podconfig.Delete && op != podconfig.Remove {
		return
	}
	switch op {
	case podconfig.Add:
		if l.admit(ctx, pod) {
			l.update(pod)
		}
	case podconfig.Update:
		if err := manifest.Validate(pod); err != nil {
			l.events.Record(events.Event{Pod: pod, Warning: true, Reason: admission.ReasonUnsupported, Message: err.Error()})
		}
		if err := l.pinResources(pod); err != nil {
			l.events.Record(events.Event{Pod: pod, Warning: true, Reason: "ResizeError", Message: err.Error()})
		} else {
			l.resize(pod)
		}
		l.update(pod)
	case podconfig.Remove:
		l.rejected.Forget(pod.UID)
		l.workers.Terminate(pod, podworkers.Termination{Reason: "its source no longer names the pod", Gone: true})
	case podconfig.Delete:
		l.workers.Terminate(pod, podworkers.Termination{Reason: "the pod is deleted", Grace: pod.DeletionGracePeriodSeconds})
	case podconfig.Reconcile:
		l.workers.Refresh(pod)
		// A condition of somebody else's may make it ready, a terminal phase that somebody else set ends it, and a
		// status that was held back for a word of the source can be made.
		if len(pod.Spec.ReadinessGates) > 0 || model.Terminal(pod.Status.Phase) || l.status.Held(pod.UID) {
			l.workers.Wake(pod.UID)
		}
	}
}

// update has a pod worked on that the node has taken.
func (l *syncLoop) update(pod *v1.Pod) {
	l.publishPending(pod)
	l.cluster.TrackObjects(pod)
	l.workers.Update(pod)
}

// publishPending shows a pod of which the runtime has nothing yet: it may wait for its name.
func (l *syncLoop) publishPending(pod *v1.Pod) {
	observed := l.cache.Peek(pod.UID) // a step may have begun since the last list
	if l.pleg.Has(pod.UID) || observed != nil && len(observed.Sandboxes)+len(observed.Containers) > 0 {
		return
	}
	publish := l.status.Set
	if model.Restored(pod) {
		publish = l.status.Hold // it ran, and only has not been looked at
	}
	publish(pod, status.Generate(status.Input{
		Pod: pod, Runtime: &model.PodStatus{UID: pod.UID}, Old: l.status.Status(pod), HostIPs: l.hostIPs, Now: time.Now(),
	}))
}

// handleEvent has a pod looked at to which something happened. A removed container changes nothing that a pod asks for.
func (l *syncLoop) handleEvent(ctx context.Context, event pleg.Event) {
	log.G(ctx).WithFields(log.Fields{"podUID": event.UID, "reason": event.Kind, "containerID": event.ID}).Debug("SyncLoop (PLEG): event for pod")
	if event.Kind != pleg.Removed {
		l.workers.Wake(event.UID)
	}
}
