package model

import v1 "k8s.io/api/core/v1"

// QOS returns the pod's QoS class by the CPU and memory of all its containers. It is Guaranteed if each has limits for
// both and no other requests, BestEffort if none has any, else Burstable.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	guaranteed, named := true, false
	EachContainer(&pod.Spec, func(c *v1.Container, kind Kind) {
		if kind == Ephemeral {
			return
		}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				named = true
			}
			// A missing request equals the limit.
			if limit.IsZero() || !request.IsZero() && request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	})
	switch {
	case !named:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}
