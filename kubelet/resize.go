package kubelet

import (
	"cmp"
	"context"
	"slices"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
)

// admit reports whether the node admits a pod with its allocated resources, and stores them as its allocation. A resize
// stays pending until all pods are known, because a pod that is not listed yet may need the free room.
func (l *syncLoop) admit(ctx context.Context, pod *v1.Pod) bool {
	allocated := l.allocated(ctx, pod)
	if !l.admitter.Admit(ctx, allocated) {
		return false
	}
	if err := l.allocation.Allocate(allocated); err != nil {
		l.resizeError(pod, err)
	}
	if !allocation.Same(allocated, pod) {
		l.allocation.SetPending(pod.UID, &v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred,
			ObservedGeneration: pod.Generation,
			Message:            "The node decides about the resize when all of its pods are known.",
		})
	}
	return true
}

// allocated returns an added pod with the resources to admit it with: its stored allocation, if there is one. Without a
// stored allocation, running containers of a pod that an earlier process admitted keep their resources. All other
// containers get their desired resources.
func (l *syncLoop) allocated(ctx context.Context, pod *v1.Pod) *v1.Pod {
	if l.allocation.Known(pod.UID) || !l.admitter.AdmittedBefore(pod) {
		return l.allocation.Allocated(pod)
	}
	observed, err := l.cache.PodStatus(ctx, pod.UID)
	if err != nil {
		log.G(ctx).WithError(err).WithField("podUID", pod.UID).
			Warn("the resources of a running pod are unknown: it is admitted with its desired resources")
		return pod
	}
	return l.allocation.AdmittedWith(pod, observed)
}

// pinResources keeps the resources of a running pod whose spec changes the desired resources. It stores the resources
// from before the change as the pod's allocation.
func (l *syncLoop) pinResources(pod *v1.Pod) error {
	old := l.workers.Pod(pod.UID)
	if old == nil || allocation.Same(old, pod) {
		return nil
	}
	return l.allocation.Allocate(l.allocation.Allocated(old))
}

// resize allocates a pod's desired resources if they fit the node. Otherwise it sets the reason why they are pending.
// Changed reports whether the pod needs a sync.
func (l *syncLoop) resize(pod *v1.Pod) (changed bool) {
	old := l.allocation.Pending(pod.UID)
	if allocation.Same(l.allocation.Allocated(pod), pod) {
		l.allocation.SetPending(pod.UID, nil)
		return old != nil
	}
	if pending := l.pendingResize(pod); pending != nil {
		pending.ObservedGeneration = pod.Generation
		if old == nil || old.Reason != pending.Reason {
			l.events.Warn(pod, "Resize"+pending.Reason,
				allocation.Message("Pod resize "+pending.Reason, pod, pending.Message))
		}
		l.allocation.SetPending(pod.UID, pending)
		return old == nil || *old != *pending
	}
	if err := l.allocation.Allocate(pod); err != nil {
		l.resizeError(pod, err)
		return false
	}
	l.allocation.SetPending(pod.UID, nil)
	l.events.Record(events.Event{Pod: pod, Reason: "ResizeStarted",
		Message: allocation.Message("Pod resize started", pod, "")})
	return true
}

// pendingResize returns the reason why a pod's desired resources cannot be allocated, nil if they can.
func (l *syncLoop) pendingResize(pod *v1.Pod) *v1.PodCondition {
	if !allocation.SamePodLevel(l.allocation.Allocated(pod).Spec.Resources, pod.Spec.Resources) {
		return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible,
			Message: "spec.resources, the pod's own resources, cannot be resized on this node"}
	}
	if l.cpus.Exclusive(pod) || l.cpus.Exclusive(l.allocation.Allocated(pod)) {
		return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible,
			Message: "a container has exclusive CPUs (--cpu-manager-policy static): they cannot be resized"}
	}
	return l.admitter.Resize(pod)
}

func (l *syncLoop) resizeError(pod *v1.Pod, err error) {
	l.events.Warn(pod, "ResizeError", allocation.Message("Pod resize error", pod, err.Error()))
}

// retryResizes retries pending resizes, because other pods may have left room. It does nothing until all sources have
// listed their pods, because a pod that is not listed yet may need that room.
func (l *syncLoop) retryResizes() {
	if !l.config.Settled() {
		return
	}
	var pods []*v1.Pod
	for _, uid := range l.allocation.AllPending() {
		if pod := l.workers.Pod(uid); pod != nil {
			pods = append(pods, pod)
		}
	}
	slices.SortStableFunc(pods, l.compareResizes)
	for _, pod := range pods {
		if l.resize(pod) {
			l.workers.Wake(pod.UID)
		}
	}
}

// compareResizes orders pending resizes as the kubelet does (sortPendingResizes of pkg/kubelet/allocation): first
// resizes that need no room, then by priority, then guaranteed pods. Equal resizes keep the order in which they began
// to wait.
func (l *syncLoop) compareResizes(a, b *v1.Pod) int {
	return cmp.Or(
		l.grows(a)-l.grows(b),
		cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0)),
		guaranteed(b)-guaranteed(a),
	)
}

// grows returns 1 for a pod that desires more than its allocated requests, else 0.
func (l *syncLoop) grows(pod *v1.Pod) int {
	has, wants := model.PodResources(l.allocation.Allocated(pod)).Requests, model.PodResources(pod).Requests
	if wants.Cpu().Cmp(*has.Cpu()) > 0 || wants.Memory().Cmp(*has.Memory()) > 0 {
		return 1
	}
	return 0
}

// guaranteed returns 1 for a pod of the QoS class Guaranteed, else 0.
func guaranteed(pod *v1.Pod) int {
	if model.QOS(pod) == v1.PodQOSGuaranteed {
		return 1
	}
	return 0
}

// forgetAllocations drops the resources, user ids, devices and CPUs of pods that are gone.
func (l *syncLoop) forgetAllocations(ctx context.Context) {
	if !l.config.Settled() {
		return
	}
	if err := l.allocation.Keep(l.workers.Has); err != nil {
		log.G(ctx).WithError(err).Warn("allocations of pods that are gone could not be dropped")
	}
	if err := l.userIDs.Keep(l.hasPod); err != nil {
		log.G(ctx).WithError(err).Warn("user ids of pods that are gone could not be freed")
	}
	if err := l.devices.Keep(l.usesGrants); err != nil {
		log.G(ctx).WithError(err).Warn("devices of pods that are gone could not be freed")
	}
	if err := l.cpus.Keep(l.usesGrants); err != nil {
		log.G(ctx).WithError(err).Warn("exclusive CPUs of pods that are gone could not be freed")
	}
}

// usesGrants reports whether a pod can use devices and CPUs: it has a worker, or runs without one. Ended containers
// that wait for their collection use none.
func (l *syncLoop) usesGrants(uid types.UID) bool {
	pod := l.pleg.Pods()[uid]
	return l.workers.Has(uid) || pod != nil && pod.Running()
}

// hasPod reports whether a pod has a worker or is in the runtime.
func (l *syncLoop) hasPod(uid types.UID) bool {
	return l.workers.Has(uid) || l.pleg.Has(uid)
}
