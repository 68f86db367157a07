package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// The phase follows from the statuses of the containers:
//
//	Pending    init containers are not done, or an app container has not started yet
//	Running    an app container runs or will be restarted, or any container of the pod still runs
//	Succeeded  all app containers ended with exit code 0, and none will be restarted
//	Failed     all app containers ended, and one failed; an init container failed for good; or the node ended the pod
//
// Succeeded and Failed are terminal: the phase does not change any more.

// phase is the pod's phase. A terminal phase in Old or in the API server's status stays.
func phase(in Input, status *v1.PodStatus) v1.PodPhase {
	for _, before := range []v1.PodPhase{in.Old.Phase, in.Pod.Status.Phase} {
		if model.Terminal(before) {
			return before
		}
	}
	now := phaseOfContainers(in, status)
	switch {
	case model.Terminal(now) && (anyRuns(status) || in.Ending && !in.ended()):
		return v1.PodRunning
	case model.Terminal(now) && model.IsFailure(status.Reason):
		return v1.PodFailed
	case now == v1.PodPending && in.Old.Phase == v1.PodRunning && in.staysInitialized():
		return v1.PodRunning
	default:
		return now
	}
}

// phaseOfContainers is the phase that follows from the init and app containers. A running sidecar does not count here.
func phaseOfContainers(in Input, status *v1.PodStatus) v1.PodPhase {
	spec := &in.Pod.Spec
	if initFailed(spec, status) {
		return v1.PodFailed
	}
	if !initializedByStatus(spec, status) {
		if in.ended() && !anyRuns(status) {
			return v1.PodFailed
		}
		return v1.PodPending
	}
	var running, waiting, succeeded, failed int
	for i := range status.ContainerStatuses {
		restarts := func(code int32) bool { return !in.ended() && model.RestartsAfter(spec, &spec.Containers[i], code) }
		switch state := &status.ContainerStatuses[i]; {
		case state.State.Running != nil || in.unknown(state.Name):
			running++
		case state.State.Terminated != nil && restarts(state.State.Terminated.ExitCode):
			running++
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
	case in.ended() && running == 0:
		return terminalPhase(failed+waiting, succeeded)
	case waiting > 0:
		return v1.PodPending
	case running > 0:
		return v1.PodRunning
	default:
		return terminalPhase(failed, succeeded)
	}
}

func terminalPhase(failed, succeeded int) v1.PodPhase {
	if failed > 0 || succeeded == 0 {
		return v1.PodFailed
	}
	return v1.PodSucceeded
}

// ended says that no container of the pod runs, and that none will start.
func (in Input) ended() bool { return in.Ending && !in.Stopping && !in.Runtime.Running() }

// unknown says that the runtime does not know the state of a container, so the container may run.
func (in Input) unknown(name string) bool {
	observed := in.Runtime.Container(name)
	return observed != nil && observed.State == model.StateUnknown
}

// staysInitialized says that a pod stays initialized while all containers restart in the pod's sandbox (KEP-5532).
func (in Input) staysInitialized() bool {
	old := model.FindCondition(in.Old.Conditions, v1.PodInitialized)
	return old != nil && old.Status == v1.ConditionTrue &&
		model.MayRestartAll(&in.Pod.Spec) && in.Runtime.ReadySandbox() != nil
}

// initFailed says that an init container failed and is not restarted.
func initFailed(spec *v1.PodSpec, status *v1.PodStatus) bool {
	for i := range spec.InitContainers {
		state := status.InitContainerStatuses[i].State.Terminated
		if !model.IsSidecar(&spec.InitContainers[i]) && state != nil && state.ExitCode != 0 &&
			!model.RestartsAfter(spec, &spec.InitContainers[i], state.ExitCode) {
			return true
		}
	}
	return false
}

// initializedByRuntime says whether, according to the runtime, all init containers succeeded and all sidecars started.
// An existing app container is proof enough: the runtime may no longer have the init containers.
func initializedByRuntime(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		if in.Runtime.Container(in.Pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		observed := in.Runtime.Container(c.Name)
		switch {
		case observed == nil:
			return false
		case model.IsSidecar(c):
			if observed.State != model.StateRunning || !in.Started[observed.ID] {
				return false
			}
		case observed.State != model.StateExited || observed.ExitCode != 0:
			return false
		}
	}
	return true
}

// initializedByStatus says whether, according to the statuses of the init containers, the app containers may run.
func initializedByStatus(spec *v1.PodSpec, status *v1.PodStatus) bool {
	for i := range spec.InitContainers {
		state := &status.InitContainerStatuses[i]
		if model.IsSidecar(&spec.InitContainers[i]) {
			if state.State.Running == nil && state.State.Terminated == nil &&
				state.LastTerminationState.Terminated == nil {
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

func anyRuns(status *v1.PodStatus) bool {
	all := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
	return slices.ContainsFunc(all, func(c v1.ContainerStatus) bool { return c.State.Running != nil })
}

// terminateContainers makes containers of an ended pod terminated if their end was not observed. It covers the init
// containers up to the last one that was tried, and always the first one. It covers the app containers if one of them
// was tried or the pod was initialized. Other containers stay waiting, as in the kubelet.
func terminateContainers(status *v1.PodStatus, initialized bool) {
	tried := func(c *v1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	inits := status.InitContainerStatuses
	for last := len(inits); last > 0; last-- {
		if last == 1 || tried(&inits[last-1]) {
			terminate(inits[:last])
			break
		}
	}
	for i := range status.ContainerStatuses {
		initialized = initialized || tried(&status.ContainerStatuses[i])
	}
	if initialized {
		terminate(status.ContainerStatuses)
	}
}

func terminate(list []v1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State, list[i].Ready = lost(lostAtEnd), false
		}
	}
}
