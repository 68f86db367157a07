package nodeshutdown

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// group are pods that end together.
type group struct {
	pods []*v1.Pod
	// period is how long they are waited for.
	period time.Duration
}

// groups are the pods in the order in which they end: those without a critical priority, then the others. Groups without
// pods are left out, and so take no time.
func groups(pods []*v1.Pod, grace, criticalGrace time.Duration) []group {
	others, critical := group{period: grace - criticalGrace}, group{period: criticalGrace}
	for _, pod := range pods {
		if model.HasCriticalPriority(pod) {
			critical.pods = append(critical.pods, pod)
		} else {
			others.pods = append(others.pods, pod)
		}
	}
	var list []group
	for _, each := range []group{others, critical} {
		if len(each.pods) > 0 {
			list = append(list, each)
		}
	}
	return list
}

// graceOf is how many seconds a pod gets: its own time, but no more than its group's.
func (g group) graceOf(pod *v1.Pod) int64 {
	seconds := int64(g.period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
		return *own
	}
	return seconds
}
