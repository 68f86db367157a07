package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
)

// resources returns the container's own limits, and the pod's own where the container has none.
func (g *Generator) resources(in ContainerInput) *runtimeapi.LinuxContainerResources {
	out := g.plainResources(model.ContainerResources(in.Pod, in.Container))
	out.OomScoreAdj = oomScore(in.Pod, in.Container, g.opts.Host.Memory)
	out.HugepageLimits = g.hugepages(in.Container.Resources.Limits)
	g.limitSwap(out, in)
	return out
}

// Resources returns the limits of a running container for CRI's UpdateContainerResources. A lifted limit has an
// explicit value, since 0 means no change.
func (g *Generator) Resources(
	pod *v1.Pod, container *v1.Container, before v1.ResourceRequirements,
) *runtimeapi.LinuxContainerResources {
	out := g.resources(ContainerInput{Pod: pod, Container: container})
	if !before.Limits.Cpu().IsZero() && out.CpuQuota == 0 {
		out.CpuQuota = -1
	}
	if !before.Limits.Memory().IsZero() && out.MemoryLimitInBytes == 0 {
		out.MemoryLimitInBytes = cgroup.Unlimited
		if g.opts.Host.Swap && !g.opts.Host.Unified {
			out.MemorySwapLimitInBytes = cgroup.Unlimited // this limit counts memory plus swap
		}
	}
	return out
}

// PodResources returns the limits of a pod for its sandbox's configuration and CRI's UpdatePodSandboxResources.
func (g *Generator) PodResources(pod *v1.Pod) (overhead, resources *runtimeapi.LinuxContainerResources) {
	overhead = &runtimeapi.LinuxContainerResources{}
	if over := pod.Spec.Overhead; len(over) > 0 {
		overhead = g.plainResources(v1.ResourceRequirements{Requests: over, Limits: over})
	}
	return overhead, g.plainResources(model.PodTotals(pod))
}

// plainResources converts requests and limits to cgroup values: shares, quota, memory.
func (g *Generator) plainResources(r v1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	request, ok := r.Requests[v1.ResourceCPU]
	if !ok {
		request = r.Limits[v1.ResourceCPU]
	}
	out := &runtimeapi.LinuxContainerResources{
		CpuShares:          cgroup.Shares(request.MilliValue()),
		CpuPeriod:          cgroup.Period,
		CpuQuota:           cgroup.Quota(r.Limits.Cpu().MilliValue()),
		MemoryLimitInBytes: r.Limits.Memory().Value(),
	}
	if g.opts.Host.Unified {
		// If the kernel kills one process of a container for lack of memory, it kills all of them, so the container
		// restarts.
		setUnified(out, "memory.oom.group", "1")
	}
	return out
}

func setUnified(r *runtimeapi.LinuxContainerResources, key, value string) {
	if r.Unified == nil {
		r.Unified = map[string]string{}
	}
	r.Unified[key] = value
}

// hugepages returns a limit for each of the host's page sizes: 0 for a size that is not in limits.
func (g *Generator) hugepages(limits v1.ResourceList) []*runtimeapi.HugepageLimit {
	var out []*runtimeapi.HugepageLimit
	for _, size := range g.opts.Host.HugepageSizes {
		limit := &runtimeapi.HugepageLimit{PageSize: cgroup.PageSize(size)}
		for name, amount := range limits {
			if text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
				if asked, err := resource.ParseQuantity(text); err == nil && asked.Value() == size {
					limit.Limit = uint64(amount.Value())
				}
			}
		}
		out = append(out, limit)
	}
	return out
}

// Scores for the kernel's out-of-memory killer: it kills higher scores first.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
)

// oomScore returns the container's oom_score_adj. A burstable container's score falls with its request's share of the
// node's memory: a container below its request is killed after a container above its request. A sidecar's score is at
// most the lowest score of its pod's app containers. Memory that only the pod itself requests counts for each container
// in equal parts.
func oomScore(pod *v1.Pod, c *v1.Container, memory int64) int64 {
	score := ownOOMScore(pod, c, memory)
	if _, kind := model.FindContainer(&pod.Spec, c.Name); kind == model.Sidecar {
		for i := range pod.Spec.Containers {
			score = min(score, ownOOMScore(pod, &pod.Spec.Containers[i], memory))
		}
	}
	return score
}

func ownOOMScore(pod *v1.Pod, c *v1.Container, memory int64) int64 {
	if pod.Spec.PriorityClassName == "system-node-critical" {
		return oomGuaranteed
	}
	switch model.QOS(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	if memory <= 0 {
		return oomBestEffort - 1
	}
	request := c.Resources.Requests.Memory().Value() + unassignedMemory(pod)
	score := 1000 - 1000*min(request, memory)/memory
	return min(max(score, 1000+oomGuaranteed), oomBestEffort-1)
}

// unassignedMemory returns a container's part of the memory that the pod itself requests beyond its containers
// (KEP-2837).
func unassignedMemory(pod *v1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	assigned := model.ContainerTotals(pod).Requests
	left := pod.Spec.Resources.Requests.Memory().Value() - assigned.Memory().Value()
	return max(0, left) / int64(len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
}
