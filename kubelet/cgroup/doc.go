// Package cgroup makes a cgroup for each pod, below the cgroup of its QoS class (PodContainerManager and
// QOSContainerManager of pkg/kubelet/cm). A pod's cgroup limits its containers together to the pod's limits. When CPU
// time is short, pods share it in proportion to their requests. The runtime makes the containers' cgroups below the
// pod's cgroup.
//
//	<root>/kubepods/pod<uid>              Guaranteed
//	<root>/kubepods/burstable/pod<uid>    Burstable; the tree's weight is the sum of its pods' requests
//	<root>/kubepods/besteffort/pod<uid>   BestEffort; the tree has the least weight
//
// The names have the format of the runtime's cgroup driver. If cgroups cannot be written, all cgroups are left to the
// runtime.
package cgroup
