package model

import v1 "k8s.io/api/core/v1"

// ResizableResources returns the resources that can change while a container runs (KEP-1287).
func ResizableResources() []v1.ResourceName {
	return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
}

// ChangedResources returns the resizable resources in which two requirements differ.
func ChangedResources(a, b v1.ResourceRequirements) []v1.ResourceName {
	var changed []v1.ResourceName
	for _, name := range ResizableResources() {
		if !sameAmount(a.Requests, b.Requests, name) || !sameAmount(a.Limits, b.Limits, name) {
			changed = append(changed, name)
		}
	}
	return changed
}

func sameAmount(a, b v1.ResourceList, name v1.ResourceName) bool {
	left, right := a[name], b[name]
	return left.Cmp(right) == 0
}
