package nodeshutdown

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// group are pods that end together.
type group struct {
	pods []*v1.Pod
	// period bounds the wait for their end.
	period time.Duration
}

// groups are the groups in the order of their end: pods without a critical priority, then critical pods. Empty groups
// are left out, so they take no time.
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

// graceOf is a pod's grace period in seconds: its own, or the group's period if that is shorter.
func (g group) graceOf(pod *v1.Pod) int64 {
	seconds := int64(g.period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
		return *own
	}
	return seconds
}
