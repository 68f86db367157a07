// Package model has the common types of the kubelet core, like pkg/kubelet/types and the types of
// pkg/kubelet/container. It has the labels and names of pods in the runtime, the kinds of containers, and PodStatus,
// the runtime's view of one pod. It has no state and calls no other component.
package model
