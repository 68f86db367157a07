package manifest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/model"
)

// ofContainers reports whether a container can have a resource.
func ofContainers(name v1.ResourceName) bool {
	return ofPods(name) || name == v1.ResourceEphemeralStorage || model.IsExtended(name) ||
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// ofPods reports whether spec.resources of a pod can have a resource. Only containers have limits of huge pages.
func ofPods(name v1.ResourceName) bool { return name == v1.ResourceCPU || name == v1.ResourceMemory }

// supportedNames returns the names of supported resources for an error.
func supportedNames(supported func(v1.ResourceName) bool) []v1.ResourceName {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage,
		v1.ResourceHugePagesPrefix + "*", "DOMAIN/NAME"}
	return slices.DeleteFunc(names, func(name v1.ResourceName) bool { return !supported(name) })
}

func validateResources(
	r *v1.ResourceRequirements, supported func(v1.ResourceName) bool, at *field.Path,
) (errs field.ErrorList) {
	for kind, list := range map[string]v1.ResourceList{"limits": r.Limits, "requests": r.Requests} {
		for name, quantity := range list {
			at := at.Child(kind).Key(string(name))
			switch {
			case !supported(name):
				errs = append(errs, field.NotSupported(at, name, supportedNames(supported)))
			case quantity.Sign() < 0:
				errs = append(errs, field.Invalid(at, quantity.String(), "it must not be negative"))
			case model.IsExtended(name):
				errs = append(errs, validateDevices(r, name, quantity, at)...)
			}
		}
	}
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				"it is more than the limit, "+limit.String()))
		}
	}
	return errs
}

// validateDevices checks an extended resource. Its amount is a whole number, it needs a limit, and a request must equal
// the limit.
func validateDevices(
	r *v1.ResourceRequirements, name v1.ResourceName, quantity resource.Quantity, at *field.Path,
) (errs field.ErrorList) {
	if quantity.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(at, quantity.String(), "it must be a whole number"))
	}
	limit, limited := r.Limits[name]
	if request, ok := r.Requests[name]; !limited || ok && request.Cmp(limit) != 0 {
		errs = append(errs,
			field.Invalid(at, quantity.String(), "devices need a limit, and a request must equal the limit"))
	}
	return errs
}

// validatePodResources compares the pod's own resources (KEP-2837) with the resources of its containers.
func validatePodResources(pod *v1.Pod, at *field.Path) field.ErrorList {
	own := pod.Spec.Resources
	if own == nil {
		return nil
	}
	errs := validateResources(own, ofPods, at)
	for name, sum := range model.ContainerTotals(pod).Requests {
		if request, ok := own.Requests[name]; ok && sum.Cmp(request) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				"the containers request more, "+sum.String()))
		}
	}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		for name, limit := range own.Limits {
			if of, ok := c.Resources.Limits[name]; ok && of.Cmp(limit) > 0 {
				errs = append(errs, field.Invalid(at.Child("limits").Key(string(name)), limit.String(),
					"the limit of the container "+c.Name+" is more, "+of.String()))
			}
		}
	})
	return errs
}
