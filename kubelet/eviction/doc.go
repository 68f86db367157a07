// Package eviction evicts pods to protect the node's memory, disk and process ids (pkg/kubelet/eviction). It evicts
// pods that use more local storage than their limits allow: the sizeLimit of an emptyDir, and the ephemeral-storage
// limits of containers. Below a threshold of memory, disk or process ids, it evicts one pod after the other. For disk
// it removes dead containers and unused images first. Reasons, messages, order and figures are the kubelet's. As in the
// kubelet, pods with a critical priority are never evicted. Static pods are evicted only for their own limits, and not
// for the node's thresholds. The kubelet evicts static pods for neither.
//
// Monitor compares the node with the thresholds and keeps the node's conditions. Manager acts. The comparison with
// limits, the ranking of pods and the messages are pure functions.
package eviction
