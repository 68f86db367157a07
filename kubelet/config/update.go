package config

import v1 "k8s.io/api/core/v1"

// Op says what happened to the pods of an Update.
type Op string

// The changes that a Mux tells.
const (
	// Add is pods that were not there.
	Add Op = "ADD"
	// Change is pods whose specification, labels or annotations changed; the kubelet calls it UPDATE.
	Change Op = "UPDATE"
	// Remove is pods that their source no longer names: stop them, and forget them.
	Remove Op = "REMOVE"
	// Delete is pods that their source wants gone gracefully (deletionTimestamp), and still names until they are.
	Delete Op = "DELETE"
	// Reconcile is pods of which only the status changed in the source: it may have to be told again.
	Reconcile Op = "RECONCILE"
)

// Update is one change from one source. The pods belong to the receiver.
type Update struct {
	Op     Op
	Source string
	Pods   []*v1.Pod
}
