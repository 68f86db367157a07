package model

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// FindCondition returns the condition of that type in the list, or nil.
func FindCondition(list []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	i := slices.IndexFunc(list, func(c v1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Ready reports whether the pod's status has the condition Ready.
func Ready(pod *v1.Pod) bool {
	c := FindCondition(pod.Status.Conditions, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}
