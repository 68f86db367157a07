// Package eviction ends pods for the sake of the node's memory and disk (pkg/kubelet/eviction): those that use more local
// storage than they may (an emptyDir beyond its sizeLimit, containers beyond their limits of ephemeral-storage), and, while
// the node is below a threshold of memory or disk, one after the other of the rest, after dead containers and unused
// images. Reasons, messages, order and figures are the kubelet's, and so is that critical pods, static ones among them,
// are never evicted. Thresholds are hard ones, without a minimum to reclaim.
//
// Monitor compares the node with the thresholds and has the node's conditions; Manager acts. What is over which limit,
// who goes first and what is said of it are pure functions.
package eviction
