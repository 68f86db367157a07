package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Resize says where a change of a pod's resources stands (KEP-1287). The zero value is that of a pod without one.
type Resize struct {
	// Pending is the condition PodResizePending, nil when what the pod desires is allocated.
	Pending *v1.PodCondition
	// Actuated is what the runtime has confirmed of a container. Nil means that nobody knows.
	Actuated func(*v1.Container, *model.ContainerStatus) (resources v1.ResourceRequirements, known bool)
	// Err is why the runtime did not take what is allocated. With Unknown nobody has tried since the status before.
	Err     error
	Unknown bool
}

// resources fills in what a container is allocated, and has while it runs.
func (in Input) resources(c *v1.Container, observed *model.ContainerStatus, out *v1.ContainerStatus) {
	if out.State.Running == nil || in.Resize.Actuated == nil {
		return
	}
	out.AllocatedResources = c.Resources.Requests.DeepCopy()
	if now, known := in.Resize.Actuated(c, observed); known {
		out.Resources = now.DeepCopy()
	}
}

// resizing says whether a container runs with other resources than it is allocated. Of one of which nobody knows it says
// so if the runtime did not take what is allocated: it is asked to until it does.
func (in Input) resizing() bool {
	if in.Resize.Actuated == nil {
		return false
	}
	found := false
	model.EachContainer(&in.Pod.Spec, func(c *v1.Container, kind model.Kind) {
		observed := in.Runtime.Container(c.Name)
		if kind == model.Init || observed == nil || observed.State != model.StateRunning {
			return
		}
		now, known := in.Resize.Actuated(c, observed)
		if known && len(model.ChangedResources(c.Resources, now)) > 0 || !known && in.Resize.Err != nil {
			found = true
		}
	})
	return found
}

// resizeConditions are those of a resize that is not done; there are none otherwise.
func resizeConditions(in Input) []v1.PodCondition {
	var list []v1.PodCondition
	if pending := in.Resize.Pending; pending != nil {
		list = append(list, condition(v1.PodResizePending, true, pending.Reason, pending.Message))
	}
	if in.resizing() {
		progress := condition(v1.PodResizeInProgress, true, "", "")
		switch old := findCondition(in.Old.Conditions, v1.PodResizeInProgress); {
		case in.Resize.Err != nil:
			progress.Reason, progress.Message = v1.PodReasonError, in.Resize.Err.Error()
		case in.Resize.Unknown && old != nil:
			progress.Reason, progress.Message = old.Reason, old.Message
		}
		list = append(list, progress)
	}
	return list
}
