package model

import v1 "k8s.io/api/core/v1"

// QOS returns the pod's QoS class. The pod's own CPU and memory (KEP-2837) decide. If it has none, the CPU and memory
// of its containers decide. The class is Guaranteed if all have limits for both resources, and only requests that equal
// the limits. It is BestEffort if none has a request or a limit, else Burstable.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	class := qosClasses{guaranteed: true}
	if own := podLevel(pod); len(own.Requests)+len(own.Limits) > 0 {
		class.count(own)
	} else {
		EachContainer(&pod.Spec, func(c *v1.Container, kind Kind) {
			if kind != Ephemeral {
				class.count(c.Resources)
			}
		})
	}
	switch {
	case !class.named:
		return v1.PodQOSBestEffort
	case class.guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

// qosClasses summarizes the counted requirements.
type qosClasses struct {
	// guaranteed: all have limits for both resources, and only requests that equal them. named: any has a request or a
	// limit.
	guaranteed, named bool
}

func (q *qosClasses) count(r v1.ResourceRequirements) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if !request.IsZero() || !limit.IsZero() {
			q.named = true
		}
		// A missing request equals the limit.
		if limit.IsZero() || !request.IsZero() && request.Cmp(limit) != 0 {
			q.guaranteed = false
		}
	}
}
