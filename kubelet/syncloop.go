package kubelet

import (
	"context"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/apiserver"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/devicemanager"
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

// syncLoop handles all causes of work, one after the other, and wakes the pods' workers.
type syncLoop struct {
	// tick is the period of the search for due pods. housekeeping is the period of the clean-up.
	tick, housekeeping time.Duration
	hostIPs            func() []string
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
	devices    *devicemanager.Manager
	cpus       *cpumanager.Manager
}

// run handles work until ctx ends. While the runtime is not ready, the loop rests, and all pods stay as they are.
func (l *syncLoop) run(ctx context.Context) {
	tick := time.NewTicker(l.tick)
	defer tick.Stop()
	clean := time.NewTicker(l.housekeeping)
	defer clean.Stop()
	backoff := cri.RetryBackoff()
	for ctx.Err() == nil {
		if err := l.runtimeErr(); err != nil {
			log.G(ctx).WithError(err).Debug("the sync loop rests while the runtime is not ready")
			select {
			case <-ctx.Done():
			case <-time.After(backoff.Step()):
			}
			continue
		}
		backoff = cri.RetryBackoff()
		l.monitor.enter()
		l.next(ctx, tick.C, clean.C)
	}
}

// next waits for one cause of work and handles it.
func (l *syncLoop) next(ctx context.Context, tick, clean <-chan time.Time) {
	select {
	case <-ctx.Done():
	case update := <-l.config.Updates():
		l.handleUpdate(ctx, update)
	case event := <-l.pleg.Events():
		l.handleEvent(ctx, event)
	case uid := <-l.prober.Changed():
		l.showProbes(uid)
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
		l.cluster.ReconcileMirrorPods(l.config, l.shown)
	}
}

// showProbes publishes results of probes at once, because the pod's worker may be busy with a pull, a hook or the pod's
// end.
func (l *syncLoop) showProbes(uid types.UID) {
	pod, observed := l.status.Get(uid), l.cache.Peek(uid)
	if pod != nil && observed != nil {
		probed := l.prober.Results(pod, observed)
		l.status.SetProbed(uid, probed.Ready, probed.Started, time.Now())
	}
}

// wakeUsers wakes the pods that name a changed object.
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

// handleUpdate dispatches the pods of an update, and then reconciles the mirror pods.
func (l *syncLoop) handleUpdate(ctx context.Context, update podconfig.PodUpdate) {
	if update.Op == podconfig.Add {
		l.admitter.Sort(update.Pods)
	}
	// as in the kubelet's log
	log.G(ctx).WithFields(log.Fields{"source": update.Source, "pods": model.Keys(update.Pods)}).
		Info("SyncLoop " + string(update.Op))
	err := l.allocation.Batch(func() {
		for _, pod := range update.Pods {
			if update.Source == model.SourceAPI && update.Op != podconfig.Remove {
				l.cluster.ObservePod(pod)
			}
			l.dispatch(ctx, update.Op, pod)
		}
	})
	if err != nil {
		log.G(ctx).WithError(err).Warn("allocated resources of new pods could not be written")
	}
	l.cluster.ReconcileMirrorPods(l.config, l.shown)
}

// dispatch passes an update to the pod's worker. A rejected pod can only be removed.
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
			l.events.Warn(pod, admission.ReasonUnsupported, err.Error())
		}
		if err := l.pinResources(pod); err != nil {
			l.resizeError(pod, err)
		} else {
			l.resize(pod)
		}
		l.update(pod)
	case podconfig.Remove:
		l.rejected.Forget(pod.UID)
		l.workers.Terminate(pod, podworkers.Termination{Reason: "its source no longer names the pod", Gone: true})
	case podconfig.Delete:
		l.workers.Terminate(pod,
			podworkers.Termination{Reason: "the pod is deleted", Grace: pod.DeletionGracePeriodSeconds})
	case podconfig.Reconcile:
		l.workers.Refresh(pod)
		// The new status may have the condition of a readiness gate, or a terminal phase, which ends the pod. A held
		// status can be sent now.
		if len(pod.Spec.ReadinessGates) > 0 || model.Terminal(pod.Status.Phase) || l.status.Held(pod.UID) {
			l.workers.Wake(pod.UID)
		}
	}
}

// update passes an admitted pod to its worker.
func (l *syncLoop) update(pod *v1.Pod) {
	l.publishPending(pod)
	l.cluster.TrackObjects(pod, l.cleaner.Finished)
	l.workers.Update(pod)
}

// shown lists the pods that the cluster should see, one per full name.
func (l *syncLoop) shown() []*v1.Pod { return l.rejected.AppendTo(l.workers.Holders()) }

// publishPending publishes the status of a pod that is not in the runtime yet. The pod's worker may do so much later,
// because the pod may have to wait for its name.
func (l *syncLoop) publishPending(pod *v1.Pod) {
	observed := l.cache.Peek(pod.UID) // a sync may have begun since the last list
	if l.pleg.Has(pod.UID) || observed != nil && len(observed.Sandboxes)+len(observed.Containers) > 0 {
		return
	}
	publish := l.status.Set
	if model.Restored(pod) {
		publish = l.status.Hold // the API server may have a newer status
	}
	publish(pod, status.Generate(status.Input{
		Pod: pod, Runtime: &model.PodStatus{UID: pod.UID}, Old: l.status.Status(pod), HostIPs: l.hostIPs(),
		Now: time.Now(),
	}))
}

// handleEvent wakes the worker of a pod that changed in the runtime. A removed container needs no sync.
func (l *syncLoop) handleEvent(ctx context.Context, event pleg.Event) {
	log.G(ctx).WithFields(log.Fields{"podUID": event.UID, "reason": event.Kind, "containerID": event.ID}).
		Debug("SyncLoop (PLEG): event for pod")
	if event.Kind != pleg.Removed {
		l.workers.Wake(event.UID)
	}
	l.cpus.Wake()
}
