package model

import v1 "k8s.io/api/core/v1"

// Failure is the reason why the node ends a pod. The pod has failed then, whatever its containers' exit codes are.
type Failure struct {
	// Reason is one word, Message a sentence.
	Reason, Message string
	// Disruption adds the condition DisruptionTarget: the node and not the pod caused the end, so a Job need not count
	// it.
	Disruption bool
}

// Reasons of failures, as in the kubelet.
const (
	// ReasonEvicted: the pod exceeded a limit, or the node was short of a resource.
	ReasonEvicted = "Evicted"
	// ReasonDeadlineExceeded: the pod ran longer than its activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonTerminated: the machine's shutdown ended the pod.
	ReasonTerminated = "Terminated"
)

// IsFailure reports whether a pod whose status has that reason ends as failed.
func IsFailure(reason string) bool {
	return reason == ReasonEvicted || reason == ReasonDeadlineExceeded || reason == ReasonTerminated
}

// criticalPriority is the lowest priority of the system (SystemCriticalPriority).
const criticalPriority = 2_000_000_000

// IsCritical reports whether the node itself needs the pod: it is admitted under pressure, and never evicted.
func IsCritical(pod *v1.Pod) bool { return IsStatic(pod) || IsMirror(pod) || HasCriticalPriority(pod) }

// HasCriticalPriority reports whether the pod has a priority of the system. Without a number from the API server, its
// priority class counts.
func HasCriticalPriority(pod *v1.Pod) bool {
	if pod.Spec.Priority == nil {
		return pod.Spec.PriorityClassName == "system-node-critical" ||
			pod.Spec.PriorityClassName == "system-cluster-critical"
	}
	return *pod.Spec.Priority >= criticalPriority
}
