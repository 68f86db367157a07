// Package cpumanager gives containers exclusive CPUs, as the kubelet's static policy does (pkg/kubelet/cm/cpumanager).
//
// A container of a guaranteed pod that requests whole CPUs gets that many exclusive CPUs. It keeps them over restarts
// of the container and of the kubelet. All other containers share the rest, the pool. When the pool changes, running
// containers get the new pool. Reserved CPUs always stay in the pool.
package cpumanager
