package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourceField returns a container's request or limit for the downward API: an integer number of divisors, rounded up.
// Without a divisor, CPU counts in cores. A missing limit becomes the pod's own, or the node's allocatable amount. A
// field other than limits.… or requests.… is an errdefs.ErrInvalidArgument.
func ResourceField(
	pod *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList,
) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	resourceName := v1.ResourceName(name)
	var amount resource.Quantity
	switch kind {
	case "limits":
		var limited bool
		if amount, limited = ContainerResources(pod, c).Limits[resourceName]; !limited {
			amount = allocatable[resourceName]
		}
	case "requests":
		amount = c.Resources.Requests[resourceName]
	default:
		return "", badResource(ref)
	}
	return divided(resourceName, amount, ref)
}

func divided(name v1.ResourceName, amount resource.Quantity, ref *v1.ResourceFieldSelector) (string, error) {
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if divisor.Sign() < 0 {
		return "", fmt.Errorf("divisor: %s is negative: %w", divisor.String(), errdefs.ErrInvalidArgument)
	}
	switch {
	case name == v1.ResourceCPU:
		return roundUp(amount.MilliValue(), divisor.MilliValue()), nil
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return roundUp(amount.Value(), divisor.Value()), nil
	default:
		return "", badResource(ref)
	}
}

func roundUp(amount, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(amount)/float64(divisor))), 10)
}

func badResource(ref *v1.ResourceFieldSelector) error {
	return fmt.Errorf("resource: %q is not limits or requests of cpu, memory, ephemeral-storage or hugepages: %w",
		ref.Resource, errdefs.ErrInvalidArgument)
}
