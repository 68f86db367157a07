package eviction

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// lowMessage says in the kubelet's words why a pod is evicted: the scarce resource, and the containers that use more of
// it than they request.
func lowMessage(t threshold, seen observation, pod *v1.Pod, stats podstats.Pod) string {
	name := t.signal.resource()
	parts := []string{
		fmt.Sprintf("The node was low on resource: %s.", name),
		fmt.Sprintf("Threshold quantity: %s, available: %s.", bytes(t.amount.value(seen.capacity)),
			bytes(seen.available)),
	}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		of, ok := stats.Containers[c.Name]
		used := containerUsage(name, of)
		if request := c.Resources.Requests[name]; ok && used != nil && used.Cmp(request) > 0 {
			parts = append(parts,
				fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %s.", c.Name, used,
					request.String(), name))
		}
	})
	return strings.Join(parts, " ")
}

// containerUsage returns a container's usage of a resource, or nil if the resource is not counted.
func containerUsage(name v1.ResourceName, stats podstats.Container) *resource.Quantity {
	switch {
	case name == v1.ResourceMemory && stats.Memory != nil:
		return bytes(*stats.Memory)
	case name == v1.ResourceEphemeralStorage:
		return bytes(stats.WritableLayer.Plus(stats.Logs).Bytes)
	default:
		return nil
	}
}
