package model

import v1 "k8s.io/api/core/v1"

// QOS returns the pod's QoS class. The pod's own CPU and memory (KEP-2837) count. If the pod has none, the CPU and
// memory of its containers count. The class is Guaranteed if all these limits are set and no request differs from
// its limit. It is BestEffort if no request or limit is set, else Burstable.
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
	// guaranteed: all limits are set, and no request differs from its limit. named: any request or limit is set.
	guaranteed, named bool
}

func (q *qosClasses) count(r v1.ResourceRequirements) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, requested := r.Requests[name]
		limit := r.Limits[name]
		if !request.IsZero() || !limit.IsZero() {
			q.named = true
		}
		// A missing request equals the limit. A request of zero does not.
		if limit.IsZero() || requested && request.Cmp(limit) != 0 {
			q.guaranteed = false
		}
	}
}
