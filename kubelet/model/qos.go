package model

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass is how much a pod is spared when memory is short: Guaranteed if every container has CPU and memory limits that
// equal its requests, BestEffort if none has any, else Burstable. Sidecars and init containers count.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	guaranteed, any := true, false
	EachContainer(&pod.Spec, func(c *v1.Container, _ Kind) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			limit, request := positive(c.Resources.Limits, name), positive(c.Resources.Requests, name)
			any = any || limit != nil || request != nil
			guaranteed = guaranteed && limit != nil && (request == nil || request.Cmp(*limit) == 0)
		}
	})
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

func positive(list v1.ResourceList, name v1.ResourceName) *resource.Quantity {
	if q, ok := list[name]; ok && q.Sign() > 0 {
		return &q
	}
	return nil
}
