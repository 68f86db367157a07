// Package model is the vocabulary of the kubelet core (pkg/kubelet/types and the types of pkg/kubelet/container):
// labels and names by which pods are recognised in the runtime, how the containers of a pod are distinguished, and
// PodStatus, what the runtime says of one pod. It holds no state and asks nobody.
package model
