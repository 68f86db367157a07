package podconfig

import v1 "k8s.io/api/core/v1"

// PodOperation is the kind of a PodUpdate, in the kubelet's words.
type PodOperation string

// The changes that a PodConfig sends.
const (
	// Add has new pods.
	Add PodOperation = "ADD"
	// Update has pods whose specification, labels or annotations changed.
	Update PodOperation = "UPDATE"
	// Remove has pods that their source no longer lists: stop and forget them.
	Remove PodOperation = "REMOVE"
	// Delete has pods that their source deletes gracefully (deletionTimestamp), and lists until they are gone.
	Delete PodOperation = "DELETE"
	// Reconcile has pods whose status alone changed at the source. The kubelet's status may have to be sent again.
	Reconcile PodOperation = "RECONCILE"
)

// PodUpdate is one change from one source. The pods belong to the receiver.
type PodUpdate struct {
	Op     PodOperation
	Source string
	Pods   []*v1.Pod
}
