// Package eviction ends pods that use more of the node's disk than they may (the local storage part of
// pkg/kubelet/eviction): an emptyDir beyond its sizeLimit, or containers beyond their limits of ephemeral-storage. Reason
// and messages are the kubelet's, and so is that critical pods, static ones among them, are never evicted. What is over
// which limit is decided by pure functions.
package eviction
