package node

import (
	"errors"
	"maps"
	"runtime"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// capacity returns the node's capacity. The error names what could not be read.
func (r *Reporter) capacity() (v1.ResourceList, error) {
	list := v1.ResourceList{
		v1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		v1.ResourcePods: *resource.NewQuantity(int64(r.opts.MaxPods), resource.DecimalSI),
	}
	mem, memoryErr := r.machine.memory()
	if memoryErr == nil {
		list[v1.ResourceMemory] = *resource.NewQuantity(mem["MemTotal"], resource.BinarySI)
	}
	disk, diskErr := r.machine.statfs(r.opts.RootDir)
	if diskErr == nil {
		list[v1.ResourceEphemeralStorage] = *resource.NewQuantity(disk, resource.BinarySI)
	}
	pages, pagesErr := r.machine.hugepages()
	maps.Copy(list, pages)
	maps.Copy(list, r.opts.capacity)
	return list, errors.Join(memoryErr, diskErr, pagesErr)
}

// withCapacity replaces this package's resources in the status. Resources that other components advertise stay. Huge
// pages of sizes that no longer exist are removed.
func withCapacity(status *v1.NodeStatus, ours v1.ResourceList) {
	all := v1.ResourceList{}
	maps.Copy(all, status.Capacity)
	maps.DeleteFunc(all, func(name v1.ResourceName, _ resource.Quantity) bool { return hugepage(name) })
	maps.Copy(all, ours)
	status.Capacity = all
}

func hugepage(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// allocatable returns the part of the capacity that pods can use. It excludes reserved resources, amounts that must
// stay free to avoid pressure, and memory set aside as huge pages. No amount is negative.
func (o *Options) allocatable(capacity v1.ResourceList) v1.ResourceList {
	list, kept := v1.ResourceList{}, o.Kept(capacity)
	for name, amount := range capacity {
		left := amount.DeepCopy()
		if reserved, ok := o.Reserved[name]; ok {
			left.Sub(reserved)
		}
		left.Sub(kept[name])
		for other, pages := range capacity {
			if name == v1.ResourceMemory && hugepage(other) {
				left.Sub(pages)
			}
		}
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, amount.Format)
		}
		list[name] = left
	}
	return list
}
