package podconfig

import v1 "k8s.io/api/core/v1"

// PodOperation is what happened to the pods of a PodUpdate, in the kubelet's words.
type PodOperation string

// The changes that a PodConfig sends.
const (
	// Add is pods that were not there.
	Add PodOperation = "ADD"
	// Update is pods whose specification, labels or annotations changed.
	Update PodOperation = "UPDATE"
	// Remove is pods that their source no longer lists: stop them, and forget them.
	Remove PodOperation = "REMOVE"
	// Delete is pods that their source wants gone gracefully (deletionTimestamp), and still lists until they are.
	Delete PodOperation = "DELETE"
	// Reconcile is pods of which only the status changed at the source: it may have to be sent again.
	Reconcile PodOperation = "RECONCILE"
)

// PodUpdate is one change from one source. The pods belong to the receiver.
type PodUpdate struct {
	Op     PodOperation
	Source string
	Pods   []*v1.Pod
}
