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
)

// IsFailure says whether a pod whose status has that reason ends as failed.
func IsFailure(reason string) bool {
	return reason == ReasonEvicted || reason == ReasonDeadlineExceeded
}

// criticalPriority is from where a priority is the system's (SystemCriticalPriority).
const criticalPriority = 2_000_000_000

// IsCritical says whether the pod is one that the node needs itself: it is taken under pressure, and never evicted.
func IsCritical(pod *v1.Pod) bool {
	return IsStatic(pod) || IsMirror(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}
