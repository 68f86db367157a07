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
	// ReasonPreempting: a critical pod needed the pod's resources.
	ReasonPreempting = "Preempting"
)

// IsFailure reports whether a reason in a pod's status means that the pod ends as Failed.
func IsFailure(reason string) bool {
	return reason == ReasonEvicted || reason == ReasonDeadlineExceeded || reason == ReasonTerminated ||
		reason == ReasonPreempting
}

// SystemCriticalPriority is the lowest critical priority.
const SystemCriticalPriority = 2_000_000_000

// Priority returns a pod's priority. Without a number from the API server, the two system priority classes mean
// SystemCriticalPriority, and others mean 0.
func Priority(pod *v1.Pod) int32 {
	switch class := pod.Spec.PriorityClassName; {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case class == "system-node-critical" || class == "system-cluster-critical":
		return SystemCriticalPriority
	}
	return 0
}

// HasCriticalPriority reports whether the pod's priority is critical.
func HasCriticalPriority(pod *v1.Pod) bool { return Priority(pod) >= SystemCriticalPriority }

// IsCritical reports whether the node itself needs the pod. The node admits a critical pod under pressure, and never
// evicts it for the node's thresholds. A static pod without a critical priority is evicted if it exceeds a limit of its
// own local storage.
func IsCritical(pod *v1.Pod) bool { return IsStatic(pod) || IsMirror(pod) || HasCriticalPriority(pod) }
