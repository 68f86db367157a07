package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Resize is the state of an in-place resize (KEP-1287); package allocation defines the terms. The zero value is a pod
// without a resize.
type Resize struct {
	// Pending is the condition PodResizePending. Nil means that the desired resources are allocated.
	Pending *v1.PodCondition
	// Actuated returns the actuated resources of a container. Nil means that they are unknown for all containers.
	Actuated func(*v1.Container, *model.ContainerStatus) (resources v1.ResourceRequirements, known bool)
	// Err is the runtime's error from applying the allocated resources. Unknown means that no sync has applied them
	// since Old, so Err says nothing.
	Err     error
	Unknown bool
}

// resources fills in the allocated and the actuated resources of a running container.
func (in Input) resources(c *v1.Container, observed *model.ContainerStatus, out *v1.ContainerStatus) {
	if out.State.Running == nil || in.Resize.Actuated == nil {
		return
	}
	out.AllocatedResources = c.Resources.Requests.DeepCopy()
	if now, known := in.Resize.Actuated(c, observed); known {
		out.Resources = now.DeepCopy()
	}
}

// resizing says whether a running container's actuated resources differ from the allocated ones. Unknown resources
// count as different if the runtime refused the last change.
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
		found = found || known && len(model.ChangedResources(c.Resources, now)) > 0 || !known && in.Resize.Err != nil
	})
	return found
}

// resizeConditions are the conditions of an unfinished resize.
func resizeConditions(in Input) []v1.PodCondition {
	var list []v1.PodCondition
	if pending := in.Resize.Pending; pending != nil {
		list = append(list, condition(v1.PodResizePending, true, pending.Reason, pending.Message))
	}
	if in.resizing() {
		progress := condition(v1.PodResizeInProgress, true, "", "")
		switch old := model.FindCondition(in.Old.Conditions, v1.PodResizeInProgress); {
		case in.Resize.Err != nil:
			progress.Reason, progress.Message = v1.PodReasonError, in.Resize.Err.Error()
		case in.Resize.Unknown && old != nil:
			progress.Reason, progress.Message = old.Reason, old.Message
		}
		list = append(list, progress)
	}
	return list
}
