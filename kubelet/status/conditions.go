package status

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Owned says whether only the kubelet sets conditions of that type. Conditions of other types come from the API server,
// with the pod. The exception is a DisruptionTarget that this kubelet set.
func Owned(kind v1.PodConditionType) bool {
	switch kind {
	case v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	default:
		return false
	}
}

// conditions returns the kubelet's own conditions in the kubelet's order, and then the conditions that it does not own.
func conditions(in Input, status *v1.PodStatus, initialized bool) []v1.PodCondition {
	own := []v1.PodCondition{
		sandboxCondition(in),
		initializedCondition(in, status, initialized),
		readyCondition(in, status),
		containersReady(in, status),
		condition(v1.PodScheduled, true, "", ""),
	}
	if !in.Ending {
		own = append(own, resizeConditions(in)...)
	}
	if model.MayRestartAll(&in.Pod.Spec) {
		own = append(own, restartingCondition(in, status))
	}
	for i := range own {
		own[i].ObservedGeneration = in.Pod.Generation
		own[i].LastTransitionTime = stamp(in.Now)
		if old := model.FindCondition(in.Old.Conditions, own[i].Type); old != nil && old.Status == own[i].Status {
			own[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	list := append(own, foreignConditions(in.Pod)...)
	if ended := disruption(in.Old.Conditions); ended != nil {
		list = withCondition(list, *ended)
	}
	return list
}

// disruption is the DisruptionTarget condition if this kubelet set it, else nil. The API server and the scheduler set
// conditions of that type, too.
func disruption(list []v1.PodCondition) *v1.PodCondition {
	c := model.FindCondition(list, v1.DisruptionTarget)
	if c == nil || c.Reason != v1.PodReasonTerminationByKubelet {
		return nil
	}
	return c
}

func withCondition(list []v1.PodCondition, c v1.PodCondition) []v1.PodCondition {
	if old := model.FindCondition(list, c.Type); old != nil {
		*old = c
		return list
	}
	return append(list, c)
}

// foreignConditions are the conditions of a pod that the kubelet does not own.
func foreignConditions(pod *v1.Pod) []v1.PodCondition {
	var list []v1.PodCondition
	for _, c := range pod.Status.Conditions {
		if !Owned(c.Type) {
			list = append(list, c)
		}
	}
	return list
}

func condition(kind v1.PodConditionType, yes bool, reason, message string) v1.PodCondition {
	c := v1.PodCondition{Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message}
	if !yes {
		c.Status = v1.ConditionFalse
	}
	return c
}

// sandboxCondition is true if containers can start in the pod's sandbox.
func sandboxCondition(in Input) v1.PodCondition {
	sandbox, problem := model.UsableSandbox(in.Pod, in.Runtime)
	if sandbox == nil {
		return condition(v1.PodReadyToStartContainers, false, "PodSandboxNotReady", problem)
	}
	return condition(v1.PodReadyToStartContainers, true, "", "")
}

// restartingCondition says whether all containers are about to restart because one of them ended (KEP-5532).
func restartingCondition(in Input, status *v1.PodStatus) v1.PodCondition {
	if source, _ := model.RestartSource(&in.Pod.Spec, in.Runtime); source != nil && !in.Ending &&
		!model.Terminal(status.Phase) {
		return condition(v1.AllContainersRestarting, true, "RestartAllContainersStarted",
			"container exited with restart policy rule") // the kubelet's text
	}
	reason := map[v1.PodPhase]string{v1.PodSucceeded: "PodCompleted", v1.PodFailed: "PodFailed"}[status.Phase]
	return condition(v1.AllContainersRestarting, false, reason, "")
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
	if initialized || len(missing) == 0 || in.staysInitialized() {
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

// readyCondition is true if containersReady is true and every readiness gate's condition is true.
func readyCondition(in Input, status *v1.PodStatus) v1.PodCondition {
	ready := containersReady(in, status)
	ready.Type = v1.PodReady
	if ready.Status == v1.ConditionFalse {
		return ready
	}
	var closed []string // the kubelet's texts
	for _, gate := range in.Pod.Spec.ReadinessGates {
		switch c := model.FindCondition(in.Pod.Status.Conditions, gate.ConditionType); {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.",
				gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s",
				gate.ConditionType, c.Status))
		}
	}
	if len(closed) > 0 {
		return condition(v1.PodReady, false, "ReadinessGatesNotReady", strings.Join(closed, ", "))
	}
	return ready
}
