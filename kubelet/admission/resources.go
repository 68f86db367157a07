package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/model"
)

// order is the order in which resources are checked. Other resources follow by name.
var order = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// shortage is a resource that the node has too little of. Its amounts have the units of the function amount.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity int64
}

// missing is the amount that would have to be freed.
func (s shortage) missing() int64 { return s.requested + s.used - s.capacity }

// checkResources compares the pod's requests with the node's free allocatable resources.
func checkResources(in *input) *Rejection {
	for _, s := range shortages(in) {
		return &Rejection{prefixOutOf + string(s.name),
			fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name,
				s.requested, s.used, s.capacity)}
	}
	return nil
}

// shortages returns the resources that the pod does not fit into, the number of pods first.
func shortages(in *input) (found []shortage) {
	others := in.others()
	if most, ok := in.Node.Status.Allocatable[v1.ResourcePods]; ok && int64(len(others))+1 > most.Value() {
		found = append(found, shortage{v1.ResourcePods, 1, int64(len(others)), most.Value()})
	}
	used := v1.ResourceList{}
	for _, pod := range others {
		for name, amount := range model.PodResources(pod).Requests {
			sum := used[name]
			sum.Add(amount)
			used[name] = sum
		}
	}
	requests := model.PodResources(in.Pod).Requests
	names := slices.SortedFunc(maps.Keys(requests), func(a, b v1.ResourceName) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		request := requests[name]
		have, known := in.Node.Status.Allocatable[name]
		if request.Sign() <= 0 || !known && model.IsExtended(name) {
			continue
		}
		left := have.DeepCopy()
		left.Sub(used[name])
		if request.Cmp(left) > 0 {
			found = append(found,
				shortage{name, amount(name, request), amount(name, used[name]), amount(name, have)})
		}
	}
	return found
}

func rank(name v1.ResourceName) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// amount is in millicores for CPU, else in bytes or units, as in the kubelet's messages.
func amount(name v1.ResourceName, quantity resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}
