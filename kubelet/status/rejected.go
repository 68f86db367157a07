package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Failing returns the status of a pod that the node has begun to end. Once the containers have ended, Generate sets the
// phase Failed.
func Failing(shown v1.PodStatus, why model.Failure, now time.Time) v1.PodStatus {
	shown.Reason, shown.Message = why.Reason, why.Message
	if !why.Disruption {
		return shown
	}
	since := stamp(now)
	if old := model.FindCondition(shown.Conditions, v1.DisruptionTarget); old != nil && old.Status == v1.ConditionTrue {
		since = old.LastTransitionTime
	}
	shown.Conditions = withCondition(slices.Clone(shown.Conditions), v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: v1.PodReasonTerminationByKubelet, Message: why.Message,
		LastTransitionTime: since, ObservedGeneration: shown.ObservedGeneration,
	})
	return shown
}

// Rejected returns the status of a pod that the node does not admit: the pod has failed and never starts. Reason and
// message come from admission. PodScheduled and the conditions that the kubelet does not own stay.
func Rejected(pod *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	status := refused(pod, v1.PodFailed, reason, message)
	status.StartTime = new(ptr.Deref(pod.Status.StartTime, stamp(now)))
	return status
}

// Held returns the status of a pod that the node cannot run. The pod stays Pending until it is deleted or changed. The
// status has no start time: after a restart of the kubelet, a start time would mean that the node admitted the pod.
func Held(pod *v1.Pod, reason, message string) v1.PodStatus {
	return refused(pod, v1.PodPending, reason, message)
}

func refused(pod *v1.Pod, phase v1.PodPhase, reason, message string) v1.PodStatus {
	status := v1.PodStatus{
		ObservedGeneration: pod.Generation, QOSClass: model.QOS(pod),
		Phase: phase, Reason: reason, Message: "Pod was rejected: " + message,
		Conditions: foreignConditions(pod),
	}
	if scheduled := model.FindCondition(pod.Status.Conditions, v1.PodScheduled); scheduled != nil {
		status.Conditions = append(status.Conditions, *scheduled)
	}
	return status
}
