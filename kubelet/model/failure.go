package model

import v1 "k8s.io/api/core/v1"

// Failure is why the node itself ends a pod. The pod has failed then, whatever its containers' exit codes are.
type Failure struct {
	// Reason is one word, Message a sentence.
	Reason, Message string
	// Disruption adds the condition DisruptionTarget: the end is the node's doing and not the pod's, so that a Job need
	// not count it.
	Disruption bool
}

// Reasons of failures, as the kubelet's.
const (
	// ReasonEvicted is that of a pod that used more than it may, or that a node short of something ended.
	ReasonEvicted = "Evicted"
	// ReasonDeadlineExceeded is that of a pod that ran longer than its activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonTerminated is that of a pod that the machine's shutdown ended.
	ReasonTerminated = "Terminated"
)

// IsFailure says whether a pod whose status has that reason ends as failed.
func IsFailure(reason string) bool {
	return reason == ReasonEvicted || reason == ReasonDeadlineExceeded || reason == ReasonTerminated
}

// criticalPriority is from where a priority is the system's (SystemCriticalPriority).
const criticalPriority = 2_000_000_000

// IsCritical says whether the pod is one that the node needs itself: it is taken under pressure, and never evicted.
func IsCritical(pod *v1.Pod) bool { return IsStatic(pod) || IsMirror(pod) || HasCriticalPriority(pod) }

// HasCriticalPriority says whether the pod has a priority of the system's. Of a pod that no API server gave the number of
// its class, the class counts.
func HasCriticalPriority(pod *v1.Pod) bool {
	if pod.Spec.Priority == nil {
		return pod.Spec.PriorityClassName == "system-node-critical" || pod.Spec.PriorityClassName == "system-cluster-critical"
	}
	return *pod.Spec.Priority >= criticalPriority
}
