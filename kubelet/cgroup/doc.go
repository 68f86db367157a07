// Package cgroup makes a cgroup for each pod, below the cgroup of its QoS class (PodContainerManager and
// QOSContainerManager of pkg/kubelet/cm). It limits the pod's containers together to the pod's limits. When CPU time is
// short, pods with requests come before pods without. The runtime makes the containers' cgroups below it.
//
//	<root>/kubepods/pod<uid>              Guaranteed
//	<root>/kubepods/burstable/pod<uid>    Burstable; the tree's weight is the sum of its pods' requests
//	<root>/kubepods/besteffort/pod<uid>   BestEffort; the tree has the least weight
//
// The names have the format of the runtime's cgroup driver. If cgroups cannot be written, all cgroups are left to the
// runtime.
package cgroup
