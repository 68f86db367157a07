package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/model"
)

// order is the one in which resources are looked at; those that it does not name follow by name.
var order = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// checkResources compares what is asked for with what the node can give and has not given yet.
func checkResources(in *input) *Rejection {
	others := in.others()
	if most, ok := in.Node.Status.Allocatable[v1.ResourcePods]; ok && int64(len(others))+1 > most.Value() {
		return outOf(v1.ResourcePods, 1, int64(len(others)), most.Value())
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
		if request.Sign() <= 0 || !known && ofCluster(name) {
			continue
		}
		left := have.DeepCopy()
		left.Sub(used[name])
		if request.Cmp(left) > 0 {
			return outOf(name, amount(name, request), amount(name, used[name]), amount(name, have))
		}
	}
	return nil
}

// ofCluster says whether a resource that the node does not have may be the cluster's: one whose name has a domain that
// is not Kubernetes' own.
func ofCluster(name v1.ResourceName) bool {
	domain, _, extended := strings.Cut(string(name), "/")
	return extended && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func rank(name v1.ResourceName) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// amount is in thousandths of a processor, or in bytes or pieces, as in the kubelet's messages.
func amount(name v1.ResourceName, quantity resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

func outOf(name v1.ResourceName, requested, used, capacity int64) *Rejection {
	return &Rejection{prefixOutOf + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		name, requested, used, capacity)}
}
