package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// container is the status of one container.
func (in Input) container(c *v1.Container, kind model.Kind, old *v1.ContainerStatus, initialized bool) v1.ContainerStatus {
	seen := in.Runtime.Container(c.Name)
	if seen == nil {
		return in.unseen(c, kind, old, initialized)
	}
	out := v1.ContainerStatus{
		Name: c.Name, RestartCount: int32(seen.Attempt), Image: seen.Image, ImageID: seen.ImageRef,
		ContainerID: in.RuntimeName + "://" + seen.ID, Started: new(bool), User: nil,
	}
	if out.Image == "" {
		out.Image = c.Image
	}
	out.LastTerminationState = in.lastTermination(seen, old)
	switch seen.State {
	case model.StateRunning:
		out.State.Running = &v1.ContainerStateRunning{StartedAt: stamp(seen.StartedAt)}
		*out.Started = in.Started[seen.ID]
		out.Ready = in.Ready[seen.ID]
		if kind == model.Init {
			out.Ready = false
		}
	case model.StateExited:
		out.State.Terminated = in.terminated(seen)
		out.Ready = kind == model.Init && seen.ExitCode == 0
		if waits := in.Waiting[c.Name]; waits != nil && !in.Ending {
			out.LastTerminationState = out.State
			out.State = v1.ContainerState{Waiting: waiting(waits)}
			out.Ready = false
		}
	default:
		out.State.Waiting = &v1.ContainerStateWaiting{Reason: model.ReasonContainerCreating}
		if waits := in.Waiting[c.Name]; waits != nil {
			out.State.Waiting = waiting(waits)
		}
	}
	return out
}

// unseen is the status of a container that the runtime does not have: not made yet, or forgotten already.
func (in Input) unseen(c *v1.Container, kind model.Kind, old *v1.ContainerStatus, initialized bool) v1.ContainerStatus {
	out := v1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool)}
	if old != nil && (old.State.Terminated != nil || old.State.Running != nil) && (in.Ending || model.Terminal(in.Old.Phase) || kind == model.Init && initialized) {
		out = *old.DeepCopy()
		out.Started = new(bool)
		if out.State.Terminated == nil {
			out.State = lost()
			out.State.Terminated.ContainerID, out.State.Terminated.StartedAt = old.ContainerID, old.State.Running.StartedAt
			out.State.Terminated.FinishedAt = stamp(in.Now)
		}
		return out
	}
	if kind == model.Init && initialized {
		out.Ready = true
		out.State.Terminated = &v1.ContainerStateTerminated{Reason: "Completed", Message: "Unable to get the exact state: its remains were removed"}
		return out
	}
	if old != nil {
		out.RestartCount, out.LastTerminationState = old.RestartCount, old.LastTerminationState
	}
	reason := model.ReasonContainerCreating
	if !initialized && len(in.Pod.Spec.InitContainers) > 0 {
		reason = model.ReasonPodInitializing
	}
	out.State.Waiting = &v1.ContainerStateWaiting{Reason: reason}
	if waits := in.Waiting[c.Name]; waits != nil {
		out.State.Waiting = waiting(waits)
	}
	return out
}

// lost is the state of a container of a pod that has ended, whose own end nobody saw. It counts as failed.
func lost() v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
	}}
}

// lastTermination is how the attempt before the one seen ended.
func (in Input) lastTermination(seen *model.ContainerStatus, old *v1.ContainerStatus) v1.ContainerState {
	for i := range in.Runtime.Containers {
		before := &in.Runtime.Containers[i]
		if before.Name == seen.Name && before.Attempt < seen.Attempt && before.State == model.StateExited {
			return v1.ContainerState{Terminated: in.terminated(before)}
		}
	}
	if old == nil || seen.Attempt == 0 {
		return v1.ContainerState{}
	}
	if old.ContainerID != in.RuntimeName+"://"+seen.ID && old.State.Terminated != nil {
		return *old.State.DeepCopy()
	}
	return *old.LastTerminationState.DeepCopy()
}

func (in Input) terminated(seen *model.ContainerStatus) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: seen.ExitCode, Reason: seen.Reason, Message: seen.Message,
		StartedAt: stamp(seen.StartedAt), FinishedAt: stamp(seen.FinishedAt), ContainerID: in.RuntimeName + "://" + seen.ID,
	}
}

func waiting(reason *model.ReasonError) *v1.ContainerStateWaiting {
	return &v1.ContainerStateWaiting{Reason: reason.Reason, Message: reason.Err.Error()}
}

// stamp is a time as the API keeps it, in seconds.
func stamp(at time.Time) metav1.Time {
	if at.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: at.Truncate(time.Second)}
}
