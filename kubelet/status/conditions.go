package status

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// conditions are those that the kubelet sets, in its order; others of the old status stay, they are somebody else's.
func conditions(in Input, status *v1.PodStatus, initialized bool) []v1.PodCondition {
	own := []v1.PodCondition{
		condition(v1.PodReadyToStartContainers, in.Runtime.ReadySandbox() != nil, "", ""),
		initializedCondition(in, status, initialized),
		readyCondition(in, status),
		containersReady(in, status),
		condition(v1.PodScheduled, true, "", ""),
	}
	for i := range own {
		own[i].ObservedGeneration = in.Pod.Generation
		own[i].LastTransitionTime = stamp(in.Now)
		if old := findCondition(in.Old.Conditions, own[i].Type); old != nil && old.Status == own[i].Status {
			own[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	for _, old := range in.Old.Conditions {
		if findCondition(own, old.Type) == nil {
			own = append(own, old)
		}
	}
	return own
}

func findCondition(list []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	i := slices.IndexFunc(list, func(c v1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func condition(kind v1.PodConditionType, yes bool, reason, message string) v1.PodCondition {
	c := v1.PodCondition{Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message}
	if !yes {
		c.Status = v1.ConditionFalse
	}
	return c
}

func initializedCondition(in Input, status *v1.PodStatus, initialized bool) v1.PodCondition {
	if status.Phase == v1.PodSucceeded {
		return condition(v1.PodInitialized, true, "PodCompleted", "")
	}
	var missing []string
	for i := range in.Pod.Spec.InitContainers {
		state := &status.InitContainerStatuses[i]
		done := state.State.Terminated != nil && state.State.Terminated.ExitCode == 0
		if model.IsSidecar(&in.Pod.Spec.InitContainers[i]) {
			done = state.Started != nil && *state.Started
		}
		if !done {
			missing = append(missing, state.Name)
		}
	}
	if initialized || len(missing) == 0 {
		return condition(v1.PodInitialized, true, "", "")
	}
	return condition(v1.PodInitialized, false, "ContainersNotInitialized",
		fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(missing, " ")))
}

func containersReady(in Input, status *v1.PodStatus) v1.PodCondition {
	switch status.Phase {
	case v1.PodSucceeded:
		return condition(v1.ContainersReady, false, "PodCompleted", "")
	case v1.PodFailed:
		return condition(v1.ContainersReady, false, "PodFailed", "")
	}
	var unready []string
	for i := range status.InitContainerStatuses {
		if model.IsSidecar(&in.Pod.Spec.InitContainers[i]) && !status.InitContainerStatuses[i].Ready {
			unready = append(unready, status.InitContainerStatuses[i].Name)
		}
	}
	for i := range status.ContainerStatuses {
		if !status.ContainerStatuses[i].Ready {
			unready = append(unready, status.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		return condition(v1.ContainersReady, false, "ContainersNotReady",
			fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " ")))
	}
	return condition(v1.ContainersReady, true, "", "")
}

// readyCondition adds the pod's readiness gates: conditions that others set.
func readyCondition(in Input, status *v1.PodStatus) v1.PodCondition {
	ready := containersReady(in, status)
	ready.Type = v1.PodReady
	if ready.Status == v1.ConditionFalse {
		return ready
	}
	for _, gate := range in.Pod.Spec.ReadinessGates {
		if c := findCondition(in.Old.Conditions, gate.ConditionType); c == nil || c.Status != v1.ConditionTrue {
			return condition(v1.PodReady, false, "ReadinessGatesNotReady",
				fmt.Sprintf("the condition %q is not True", gate.ConditionType))
		}
	}
	return ready
}
