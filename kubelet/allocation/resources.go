package allocation

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Same says whether two pods have the same CPU and memory, in each container and in spec.resources.
func Same(a, b *v1.Pod) bool {
	same := SamePodLevel(a.Spec.Resources, b.Spec.Resources)
	model.EachContainer(&a.Spec, func(c *v1.Container, _ model.Kind) {
		if other, _ := model.FindContainer(&b.Spec, c.Name); other != nil &&
			len(model.ChangedResources(c.Resources, other.Resources)) > 0 {
			same = false
		}
	})
	return same
}

// SamePodLevel says whether two pods have the same CPU and memory in spec.resources, their pod-level resources. Nil
// means none.
func SamePodLevel(a, b *v1.ResourceRequirements) bool {
	var none v1.ResourceRequirements
	return len(model.ChangedResources(ptr.Deref(a, none), ptr.Deref(b, none))) == 0
}

// Restarts says whether the container's resizePolicy requires a restart for a change of these resources.
func Restarts(c *v1.Container, changed []v1.ResourceName) bool {
	for _, name := range changed {
		for _, policy := range c.ResizePolicy {
			if policy.ResourceName == name && policy.RestartPolicy == v1.RestartContainer {
				return true
			}
		}
	}
	return false
}

// Meanwhile returns the pod with the limits that its cgroup needs during a resize. Each container gets the greater of
// its allocated and its actuated limit, or no limit if either is missing. The QoS class stays the class of allocated.
func Meanwhile(allocated *v1.Pod, actuated func(*v1.Container) (v1.ResourceRequirements, bool)) *v1.Pod {
	return withResources(allocated, func(c *v1.Container) v1.ResourceRequirements {
		now, known := actuated(c)
		if !known {
			return c.Resources
		}
		out := *c.Resources.DeepCopy()
		for _, name := range model.ResizableResources() {
			limit, limited := out.Limits[name]
			before, wasLimited := now.Limits[name]
			switch {
			case !limited:
			case !wasLimited:
				delete(out.Limits, name)
			case before.Cmp(limit) > 0:
				// A request that equals the limit changes with it. Otherwise a guaranteed pod would get another QoS
				// class.
				if request, ok := out.Requests[name]; ok && request.Cmp(limit) == 0 {
					out.Requests[name] = before
				}
				out.Limits[name] = before
			}
		}
		return out
	})
}

// withResources is the pod with other resizable resources, or the pod itself if nothing differs.
func withResources(pod *v1.Pod, resources func(*v1.Container) v1.ResourceRequirements) *v1.Pod {
	var changed *v1.Pod
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		wanted := resources(c)
		if len(model.ChangedResources(c.Resources, wanted)) == 0 {
			return
		}
		if changed == nil {
			changed = pod.DeepCopy()
		}
		target, _ := model.FindContainer(&changed.Spec, c.Name)
		for _, name := range model.ResizableResources() {
			set(&target.Resources.Requests, name, wanted.Requests)
			set(&target.Resources.Limits, name, wanted.Limits)
		}
	})
	if changed == nil {
		return pod
	}
	return changed
}

func set(list *v1.ResourceList, name v1.ResourceName, from v1.ResourceList) {
	amount, ok := from[name]
	if !ok {
		delete(*list, name)
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = amount
}

// resizable is the part of the requirements that can be resized.
func resizable(r v1.ResourceRequirements) v1.ResourceRequirements {
	var out v1.ResourceRequirements
	for _, name := range model.ResizableResources() {
		if _, ok := r.Requests[name]; ok {
			set(&out.Requests, name, r.Requests)
		}
		if _, ok := r.Limits[name]; ok {
			set(&out.Limits, name, r.Limits)
		}
	}
	return out
}
