package admission

import (
	"cmp"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// preempted is the reason for ending pods, in the kubelet's words.
var preempted = model.Failure{
	Reason: model.ReasonPreempting, Message: "Preempted in order to admit critical pod", Disruption: true,
}

// needs are amounts of resources that are to be freed.
type needs map[v1.ResourceName]int64

// without returns the needs that are left when pods end.
func (n needs) without(pods ...*v1.Pod) needs {
	left := needs{}
	for name, amount := range n {
		for _, pod := range pods {
			amount -= requestOf(pod, name)
		}
		if amount > 0 {
			left[name] = amount
		}
	}
	return left
}

// distance says how far a pod's requests are from covering the needs. It is the sum of the squares of the missing
// shares: 0 if nothing is missing, 1 for each resource without a request.
func (n needs) distance(pod *v1.Pod) (sum float64) {
	for name, amount := range n {
		if left := amount - requestOf(pod, name); left > 0 {
			sum += math.Pow(float64(left)/float64(amount), 2)
		}
	}
	return sum
}

// requestOf returns a pod's request in the unit of amount. Each pod requests 1 of the resource pods.
func requestOf(pod *v1.Pod, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return amount(name, model.PodResources(pod).Requests[name])
}

// victims returns the pods to end so that a critical pod fits (pkg/kubelet/preemption). It returns false if the pod
// would not fit after the end of all preemptable pods. BestEffort pods go first, then Burstable ones, then Guaranteed
// ones. A class loses pods only for needs that the end of all pods in the earlier classes would not cover.
func victims(critical *v1.Pod, others []*v1.Pod, missing []shortage) (chosen []*v1.Pod, ok bool) {
	wanted := needs{}
	for _, s := range missing {
		wanted[s.name] = s.missing()
	}
	classes := map[v1.PodQOSClass][]*v1.Pod{}
	for _, pod := range others {
		if preemptable(critical, pod) {
			class := model.QOS(pod)
			classes[class] = append(classes[class], pod)
		}
	}
	if len(wanted.without(slices.Concat(slices.Collect(maps.Values(classes))...)...)) > 0 {
		return nil, false
	}
	byCost := []v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}
	for i := len(byCost) - 1; i >= 0; i-- {
		left := wanted.without(chosen...)
		for _, cheaper := range byCost[:i] {
			left = left.without(classes[cheaper]...)
		}
		chosen = append(chosen, nearest(classes[byCost[i]], left)...)
	}
	slices.Reverse(chosen)
	return chosen, true
}

// nearest returns pods that together cover the needs. Each step takes the pod with the least distance to the remaining
// needs. Of two equally near pods, it takes the one with the smaller requests.
func nearest(pods []*v1.Pod, left needs) (chosen []*v1.Pod) {
	pods = slices.Clone(pods)
	for len(left) > 0 && len(pods) > 0 {
		best := slices.MinFunc(pods, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(left.distance(a), left.distance(b)),
				cmp.Compare(requestOf(a, v1.ResourceMemory), requestOf(b, v1.ResourceMemory)),
				cmp.Compare(requestOf(a, v1.ResourceCPU), requestOf(b, v1.ResourceCPU)))
		})
		chosen, left = append(chosen, best), left.without(best)
		pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return pod == best })
	}
	return chosen
}

// preemptable reports whether a pod may end for a critical one.
func preemptable(critical, pod *v1.Pod) bool {
	if !model.IsCritical(pod) {
		return true
	}
	return critical.Spec.Priority != nil && pod.Spec.Priority != nil && *critical.Spec.Priority > *pod.Spec.Priority
}
