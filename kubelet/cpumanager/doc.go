// Package cpumanager gives containers exclusive CPUs, as the kubelet's static policy does (pkg/kubelet/cm/cpumanager).
//
// A container of a guaranteed pod that requests whole CPUs gets that many, and keeps them over its restarts and the
// kubelet's. All other containers share the rest, the pool. When the pool changes, running containers get the new pool.
// Reserved CPUs always stay in the pool.
package cpumanager
