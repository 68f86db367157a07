package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// phase sums the containers up. A pod is not over as long as anything in it runs or may run, sidecars included.
func phase(in Input, status *v1.PodStatus) v1.PodPhase {
	for _, ended := range []v1.PodPhase{in.Old.Phase, in.Pod.Status.Phase} {
		if model.Terminal(ended) {
			return ended // there is no way back, whoever said so
		}
	}
	summed := sum(in, status)
	switch {
	case model.Terminal(summed) && (!allOver(status) || in.Ending && !in.over()):
		return v1.PodRunning
	case model.Terminal(summed) && model.IsFailure(status.Reason):
		return v1.PodFailed
	case summed == v1.PodPending && in.Old.Phase == v1.PodRunning && in.again(v1.PodInitialized):
		return v1.PodRunning
	default:
		return summed
	}
}

func sum(in Input, status *v1.PodStatus) v1.PodPhase {
	spec := &in.Pod.Spec
	if initFailed(spec, status) {
		return v1.PodFailed
	}
	if !initialized(spec, status) {
		if in.over() && allOver(status) {
			return v1.PodFailed
		}
		return v1.PodPending
	}
	var running, waiting, succeeded, failed int
	for i := range status.ContainerStatuses {
		again := func(code int32) bool { return !in.over() && model.RestartsAfter(spec, &spec.Containers[i], code) }
		switch state := &status.ContainerStatuses[i]; {
		case state.State.Running != nil || in.unknown(state.Name):
			running++
		case state.State.Terminated != nil && again(state.State.Terminated.ExitCode):
			running++ // soon
		case state.State.Terminated != nil && state.State.Terminated.ExitCode == 0:
			succeeded++
		case state.State.Terminated != nil:
			failed++
		case state.LastTerminationState.Terminated != nil:
			running++ // between two attempts
		default:
			waiting++
		}
	}
	switch {
	case in.over() && running == 0:
		return ended(failed+waiting, succeeded)
	case waiting > 0:
		return v1.PodPending
	case running > 0:
		return v1.PodRunning
	default:
		return ended(failed, succeeded)
	}
}

// unknown says whether the runtime cannot tell the state of a container, which may run.
func (in Input) unknown(name string) bool {
	observed := in.Runtime.Container(name)
	return observed != nil && observed.State == model.StateUnknown
}

func ended(failed, succeeded int) v1.PodPhase {
	if failed > 0 || succeeded == 0 {
		return v1.PodFailed
	}
	return v1.PodSucceeded
}

// initFailed says whether an init container failed that is not tried again.
func initFailed(spec *v1.PodSpec, status *v1.PodStatus) bool {
	for i := range spec.InitContainers {
		state := status.InitContainerStatuses[i].State.Terminated
		if !model.IsSidecar(&spec.InitContainers[i]) && state != nil && state.ExitCode != 0 && !model.RestartsAfter(spec, &spec.InitContainers[i], state.ExitCode) {
			return true
		}
	}
	return false
}

// initialized says, by the statuses, whether the app containers may run.
func initialized(spec *v1.PodSpec, status *v1.PodStatus) bool {
	for i := range spec.InitContainers {
		state := &status.InitContainerStatuses[i]
		if model.IsSidecar(&spec.InitContainers[i]) {
			if state.State.Running == nil && state.State.Terminated == nil && state.LastTerminationState.Terminated == nil {
				return false
			}
			continue
		}
		if state.State.Terminated == nil || state.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

func allOver(status *v1.PodStatus) bool {
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				return false
			}
		}
	}
	return true
}
