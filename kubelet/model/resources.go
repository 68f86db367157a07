package model

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// PodResources returns the requests and limits of the pod as a whole. It is PodTotals with the overhead. A limit stays
// only if the pod or every container has one: a container without a limit is not limited.
func PodResources(pod *v1.Pod) v1.ResourceRequirements {
	total, own := PodTotals(pod), podLevel(pod).Limits
	EachContainer(&pod.Spec, func(c *v1.Container, kind Kind) {
		if kind == Ephemeral {
			return // an ephemeral container has no resources of its own
		}
		maps.DeleteFunc(total.Limits, func(name v1.ResourceName, _ resource.Quantity) bool {
			_, ofPod := own[name]
			limit := c.Resources.Limits[name]
			return !ofPod && limit.IsZero()
		})
	})
	add(total.Requests, pod.Spec.Overhead)
	for name := range total.Limits {
		if over, ok := pod.Spec.Overhead[name]; ok {
			add(total.Limits, v1.ResourceList{name: over})
		}
	}
	return total
}

// PodTotals returns requests and limits without the overhead: the pod's own (KEP-2837), and for other resources
// ContainerTotals.
func PodTotals(pod *v1.Pod) v1.ResourceRequirements {
	total, own := ContainerTotals(pod), podLevel(pod)
	maps.Copy(total.Requests, own.Requests)
	maps.Copy(total.Limits, own.Limits)
	return total
}

// podLevel returns the resources of spec.resources, empty without any.
func podLevel(pod *v1.Pod) v1.ResourceRequirements {
	return ptr.Deref(pod.Spec.Resources, v1.ResourceRequirements{})
}

// ContainerResources returns a container's resources. For a limit that the container lacks, they have the pod's own
// limit (KEP-2837).
func ContainerResources(pod *v1.Pod, c *v1.Container) v1.ResourceRequirements {
	own := podLevel(pod).Limits
	if len(own) == 0 {
		return c.Resources
	}
	out := *c.Resources.DeepCopy()
	for name, limit := range own {
		if has := out.Limits[name]; has.IsZero() {
			if out.Limits == nil {
				out.Limits = v1.ResourceList{}
			}
			out.Limits[name] = limit.DeepCopy()
		}
	}
	return out
}

// ContainerTotals sums up the requests and limits of containers. For each resource it takes the greater of two values.
// One is the sum over app containers and sidecars. The other is the greatest need of an init container with the
// sidecars before it.
func ContainerTotals(pod *v1.Pod) v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: effective(pod, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests }),
		Limits:   effective(pod, func(c *v1.Container) v1.ResourceList { return c.Resources.Limits }),
	}
}

func effective(pod *v1.Pod, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	sum, sidecars, peak := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	EachContainer(&pod.Spec, func(c *v1.Container, kind Kind) {
		switch kind {
		case App:
			add(sum, of(c))
		case Sidecar:
			add(sum, of(c))
			add(sidecars, of(c))
			raise(peak, sidecars)
		case Init:
			now := sidecars.DeepCopy()
			add(now, of(c))
			raise(peak, now)
		}
	})
	raise(sum, peak)
	return sum
}

func add(sum, more v1.ResourceList) {
	for name, amount := range more {
		total := sum[name].DeepCopy()
		total.Add(amount)
		sum[name] = total
	}
}

func raise(most, other v1.ResourceList) {
	for name, amount := range other {
		if have, ok := most[name]; !ok || have.Cmp(amount) < 0 {
			most[name] = amount.DeepCopy()
		}
	}
}

// IsExtended reports whether a resource is of a device plugin or an administrator: its name has a domain other than
// Kubernetes'. Names of a resource quota, such as requests.example.com/card, are not extended resources.
func IsExtended(name v1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(domain, v1.DefaultResourceRequestsPrefix)
}
