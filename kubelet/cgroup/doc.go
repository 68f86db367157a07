// Package cgroup gives each pod a cgroup of its own, in the tree of its class of service (the PodContainerManager and
// QOSContainerManager of pkg/kubelet/cm): the containers of a pod together get no more than the pod's limits, and when
// processor time is short, pods that asked for some come before those that did not. The runtime makes the containers'
// cgroups below it.
//
//	<root>/kubepods/pod<uid>              Guaranteed
//	<root>/kubepods/burstable/pod<uid>    Burstable; the tree's weight is the sum of its pods' requests
//	<root>/kubepods/besteffort/pod<uid>   BestEffort; the tree has the least weight
//
// The names are spelled as the runtime's cgroup driver has them. Where cgroups cannot be written, everything is left to
// the runtime.
package cgroup
