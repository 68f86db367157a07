package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// over says that the pod has ended: nothing of it runs, and nothing starts any more.
func (in Input) over() bool { return in.Ending && !in.Stopping && !in.Runtime.Running() }

// finish gives each container of a pod that has ended an end, as the kubelet does: app containers if the pod came so
// far, init containers up to the last one that was ever tried, the first one in any case. Those behind it stay waiting.
func finish(status *v1.PodStatus, initialized bool) {
	inits := status.InitContainerStatuses
	for tried := len(inits); tried > 0; tried-- {
		if last := &inits[tried-1]; tried == 1 || last.State.Waiting == nil || last.LastTerminationState.Terminated != nil {
			end(inits[:tried])
			break
		}
	}
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		initialized = initialized || c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	if initialized {
		end(status.ContainerStatuses)
	}
}

func end(list []v1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State, list[i].Ready = lost(), false
		}
	}
}

// Failing is the status of a pod that the node ends from now on: Generate makes it a failed one when its containers
// have ended.
func Failing(shown v1.PodStatus, why model.Failure, now time.Time) v1.PodStatus {
	shown.Reason, shown.Message = why.Reason, why.Message
	if !why.Disruption {
		return shown
	}
	since := stamp(now)
	if old := findCondition(shown.Conditions, v1.DisruptionTarget); old != nil && old.Status == v1.ConditionTrue {
		since = old.LastTransitionTime
	}
	shown.Conditions = withCondition(slices.Clone(shown.Conditions), v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: why.Message,
		LastTransitionTime: since, ObservedGeneration: shown.ObservedGeneration,
	})
	return shown
}

// Rejected is the status of a pod that the node does not take: it has failed, and is never started. Reason is the word
// of the admission that refused it, Message its sentence. Conditions that the API server has stay.
func Rejected(pod *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	began := stamp(now)
	if pod.Status.StartTime != nil {
		began = *pod.Status.StartTime
	}
	status := refused(pod, v1.PodFailed, reason, message)
	status.StartTime = &began
	return status
}

// Held is the status of a pod that the node cannot run and that waits until somebody deletes or changes it. It has no
// start time: that would say to a later process that the node took it.
func Held(pod *v1.Pod, reason, message string) v1.PodStatus {
	return refused(pod, v1.PodPending, reason, message)
}

func refused(pod *v1.Pod, phase v1.PodPhase, reason, message string) v1.PodStatus {
	status := v1.PodStatus{
		ObservedGeneration: pod.Generation, QOSClass: model.QOS(pod),
		Phase: phase, Reason: reason, Message: "Pod was rejected: " + message,
		Conditions: others(pod),
	}
	if scheduled := findCondition(pod.Status.Conditions, v1.PodScheduled); scheduled != nil {
		status.Conditions = append(status.Conditions, *scheduled)
	}
	return status
}
