package allocation

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
)

// actual derives a container's requests and limits from the limits that the runtime reports. Reported limits are
// rounded, so actual keeps a wanted amount that rounds to the reported limit. It also keeps a memory request, which
// sets no limit, unless the request equals the limit.
func actual(wanted v1.ResourceRequirements, now *model.ActualLimits) v1.ResourceRequirements {
	out := resizable(wanted)
	request, ok := wanted.Requests[v1.ResourceCPU]
	if !ok {
		request = wanted.Limits[v1.ResourceCPU]
	}
	if now.CPUShares > 0 && now.CPUShares != cgroup.Shares(request.MilliValue()) {
		replace(&out.Requests, v1.ResourceCPU,
			resource.NewMilliQuantity(cgroup.MilliOfShares(now.CPUShares), resource.DecimalSI))
	}
	quota := cgroup.Quota(wanted.Limits.Cpu().MilliValue())
	if has := cgroup.QuotaPer(now.CPUQuota, now.CPUPeriod); has != quota {
		replace(&out.Limits, v1.ResourceCPU, resource.NewMilliQuantity(cgroup.MilliOfQuota(has), resource.DecimalSI))
	}
	limit := wanted.Limits[v1.ResourceMemory]
	if has := cgroup.Limited(now.Memory); has != limit.Value() {
		// A request that equals the limit changes with it. Otherwise a guaranteed pod would get another QoS class.
		if request, ok := wanted.Requests[v1.ResourceMemory]; ok && has > 0 && request.Cmp(limit) == 0 {
			replace(&out.Requests, v1.ResourceMemory, resource.NewQuantity(has, resource.BinarySI))
		}
		replace(&out.Limits, v1.ResourceMemory, resource.NewQuantity(has, resource.BinarySI))
	}
	return out
}

// replace sets an amount. Zero removes it.
func replace(list *v1.ResourceList, name v1.ResourceName, amount *resource.Quantity) {
	from := v1.ResourceList{}
	if !amount.IsZero() {
		from[name] = *amount
	}
	set(list, name, from)
}
