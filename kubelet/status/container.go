package status

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

func (in Input) container(
	c *v1.Container, kind model.Kind, old *v1.ContainerStatus, initialized bool,
) v1.ContainerStatus {
	observed := in.Runtime.Container(c.Name)
	if observed == nil {
		return in.unseen(c, kind, old, initialized)
	}
	out := v1.ContainerStatus{
		Name: c.Name, RestartCount: int32(observed.Attempt), Image: cmp.Or(observed.Image, c.Image),
		ImageID:     observed.ImageRef,
		ContainerID: in.RuntimeName + "://" + observed.ID, Started: new(bool), User: observed.User,
		StopSignal: observed.StopSignal, VolumeMounts: volumeMounts(c, observed),
	}
	out.LastTerminationState = in.lastTermination(observed, old)
	switch observed.State {
	case model.StateRunning:
		out.State.Running = &v1.ContainerStateRunning{StartedAt: stamp(observed.StartedAt)}
		*out.Started = in.Started[observed.ID]
		out.Ready = in.Ready[observed.ID]
		if kind == model.Init {
			out.Ready = false
		}
		in.resources(c, observed, &out)
	case model.StateExited:
		out.State.Terminated = in.terminated(observed)
		out.Ready = kind == model.Init && observed.ExitCode == 0
		if waits := in.waiting(c.Name, old); waits != nil && !in.Ending {
			out.LastTerminationState = out.State
			out.State = v1.ContainerState{Waiting: waits}
			out.Ready = false
		}
	default:
		out.State.Waiting = cmp.Or(in.waiting(c.Name, old),
			&v1.ContainerStateWaiting{Reason: model.ReasonContainerCreating})
	}
	return out
}

// unseen is the status of a container that the runtime does not list: it is not created yet, or already removed.
func (in Input) unseen(c *v1.Container, kind model.Kind, old *v1.ContainerStatus, initialized bool) v1.ContainerStatus {
	out := v1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool), VolumeMounts: volumeMounts(c, nil)}
	completed := kind == model.Init && initialized
	if old != nil && (old.State.Terminated != nil || old.State.Running != nil && !completed) &&
		(in.Ending || model.Terminal(in.Old.Phase) || completed) {
		out = *old.DeepCopy()
		out.Started = new(bool)
		if out.State.Terminated == nil {
			out.State, out.Ready = lost(lostAtEnd), false
			out.State.Terminated.ContainerID, out.State.Terminated.StartedAt = old.ContainerID,
				old.State.Running.StartedAt
			out.State.Terminated.FinishedAt = stamp(in.Now)
		}
		return out
	}
	if in.removedByRestart(old) && kind != model.Ephemeral {
		out.RestartCount, out.LastTerminationState = old.RestartCount+1, lostToRestart()
		out.State.Waiting = cmp.Or(in.waiting(c.Name, old),
			&v1.ContainerStateWaiting{Reason: reasonRestartingAll, Message: messageRestartingAll})
		return out
	}
	if completed {
		out.Ready = true
		out.State.Terminated = &v1.ContainerStateTerminated{Reason: "Completed",
			Message: "Unable to get init container status from container runtime and pod has been initialized, " +
				"treat it as exited normally"} // the kubelet's text
		return out
	}
	if old != nil {
		out.RestartCount, out.LastTerminationState = old.RestartCount, old.LastTerminationState
		switch { // the container starts again; without a last termination the pod would be Pending
		case old.State.Terminated != nil:
			out.LastTerminationState = *old.State.DeepCopy()
		case old.State.Running != nil && old.LastTerminationState.Terminated == nil:
			out.RestartCount++
			out.LastTerminationState = lost(lostBeforeRestart)
		}
	}
	reason := model.ReasonContainerCreating
	if !initialized && len(in.Pod.Spec.InitContainers) > 0 {
		reason = model.ReasonPodInitializing
	}
	out.State.Waiting = cmp.Or(in.waiting(c.Name, old), &v1.ContainerStateWaiting{Reason: reason})
	return out
}

// The kubelet's texts for a container that is no longer in the runtime. lostBeforeRestart is for its last state if the
// pod goes on, and lostAtEnd for its state if the pod has ended.
const (
	lostBeforeRestart = "The container could not be located when the pod was deleted.  The container used to be Running"
	lostAtEnd         = "The container could not be located when the pod was terminated"
)

// lost is the state of a container that ran, but is no longer in the runtime. It counts as failed.
func lost(message string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: message,
	}}
}

// The kubelet's texts for a container that was removed because all containers of the pod restart.
const (
	reasonRestartingAll  = "RestartingAllContainers"
	messageRestartingAll = "The container is removed because RestartAllContainers in place"
)

// lostToRestart is the last state of a container that was removed because all containers of the pod restart. As in the
// kubelet, it replaces the exit code of an ended container.
func lostToRestart() v1.ContainerState {
	state := lost(messageRestartingAll)
	state.Terminated.Reason = reasonRestartingAll
	return state
}

// removedByRestart says whether a container with this old status, which the runtime no longer lists, was removed
// because all containers of the pod restart (KEP-5532).
func (in Input) removedByRestart(old *v1.ContainerStatus) bool {
	if old == nil || old.State.Waiting != nil || in.Ending || model.Terminal(in.Old.Phase) {
		return false
	}
	before := model.FindCondition(in.Old.Conditions, v1.AllContainersRestarting)
	return before != nil && before.Status == v1.ConditionTrue
}

// lastTermination returns the end of the attempt before the observed one.
func (in Input) lastTermination(observed *model.ContainerStatus, old *v1.ContainerStatus) v1.ContainerState {
	for i := range in.Runtime.Containers {
		before := &in.Runtime.Containers[i]
		if before.Name == observed.Name && before.Attempt < observed.Attempt && before.State == model.StateExited {
			return v1.ContainerState{Terminated: in.terminated(before)}
		}
	}
	if old != nil && old.ContainerID != in.RuntimeName+"://"+observed.ID && in.removedByRestart(old) {
		return lostToRestart()
	}
	if old == nil || observed.Attempt == 0 {
		return v1.ContainerState{}
	}
	if old.ContainerID != in.RuntimeName+"://"+observed.ID && old.State.Terminated != nil {
		return *old.State.DeepCopy()
	}
	return *old.LastTerminationState.DeepCopy()
}

func (in Input) terminated(observed *model.ContainerStatus) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: observed.ExitCode, Reason: observed.Reason, Message: observed.Message,
		StartedAt: stamp(observed.StartedAt), FinishedAt: stamp(observed.FinishedAt),
		ContainerID: in.RuntimeName + "://" + observed.ID,
	}
}

// waiting returns the last sync's reason why a container does not run. Without a sync since Old, the reason in Old
// stays. The reasons ContainerCreating and PodInitializing never come from a sync, so they are not kept.
func (in Input) waiting(name string, old *v1.ContainerStatus) *v1.ContainerStateWaiting {
	if reason := in.Waiting[name]; reason != nil {
		return &v1.ContainerStateWaiting{Reason: reason.Reason, Message: reason.Err.Error()}
	}
	if in.Waiting != nil || old == nil || old.State.Waiting == nil {
		return nil
	}
	switch old.State.Waiting.Reason {
	case model.ReasonContainerCreating, model.ReasonPodInitializing:
		return nil
	default:
		return old.State.Waiting.DeepCopy()
	}
}

// stamp truncates a time to seconds, as the API does.
func stamp(at time.Time) metav1.Time {
	if at.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: at.Truncate(time.Second)}
}
