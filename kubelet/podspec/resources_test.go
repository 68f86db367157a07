package podspec

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cgroup"
)

func amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "" {
			list[name] = resource.MustParse(text)
		}
	}
	return list
}

func TestResources(t *testing.T) {
	for _, c := range []struct {
		name             string
		requests, limits v1.ResourceList
		host             cgroup.Host
		want             string // shares quota memory swap oom unified
	}{
		{"none", nil, nil, cgroup.Host{Memory: 1 << 30}, "2 0 0 0 1000 map[]"},
		{"guaranteed", amounts("2", "1Gi"), amounts("2", "1Gi"), cgroup.Host{Memory: 4 << 30},
			"2048 200000 1073741824 0 -997 map[]"},
		{"limit is the request", nil, amounts("100m", ""), cgroup.Host{Memory: 4 << 30}, "102 10000 0 0 999 map[]"},
		{"burstable", amounts("", "1Gi"), nil, cgroup.Host{Memory: 4 << 30}, "2 0 0 0 750 map[]"},
		{"wants more than there is", amounts("", "1Pi"), nil, cgroup.Host{Memory: 4 << 30}, "2 0 0 0 3 map[]"},
		{"v1 with swap", nil, amounts("", "1Gi"), cgroup.Host{Memory: 4 << 30, Swap: true},
			"2 0 1073741824 1073741824 999 map[]"},
		{"v2 with swap", nil, amounts("", "1Gi"), cgroup.Host{Memory: 4 << 30, Swap: true, Unified: true},
			"2 0 1073741824 0 999 map[memory.oom.group:1 memory.swap.max:0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(func(p *v1.Pod) {
				p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
			})
			r := testGenerator(t, func(o *Options) { o.Host = c.host }).resources(input(pod))
			got := fmt.Sprint(r.GetCpuShares(), r.GetCpuQuota(), r.GetMemoryLimitInBytes(),
				r.GetMemorySwapLimitInBytes(), r.GetOomScoreAdj(), r.GetUnified())
			testutil.Assert(t, got == c.want, "got %s, want %s", got, c.want)
		})
	}
}

// TestLiftedLimits: lifted limits have explicit values, since 0 means no change.
func TestLiftedLimits(t *testing.T) {
	before := v1.ResourceRequirements{Limits: amounts("1", "1Gi")}
	for _, c := range []struct {
		name   string
		before v1.ResourceRequirements
		limits v1.ResourceList
		host   cgroup.Host
		want   string // quota memory swap
	}{
		{"both", before, nil, cgroup.Host{}, fmt.Sprint(-1, cgroup.Unlimited, 0)},
		{"processors", before, amounts("", "2Gi"), cgroup.Host{}, fmt.Sprint(-1, 2<<30, 0)},
		{"memory, with swap", before, amounts("2", ""), cgroup.Host{Swap: true},
			fmt.Sprint(200_000, cgroup.Unlimited, cgroup.Unlimited)},
		{"no limit before", v1.ResourceRequirements{}, nil, cgroup.Host{Swap: true}, "0 0 0"},
	} {
		pod := testPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = c.limits })
		r := testGenerator(t, func(o *Options) { o.Host = c.host }).Resources(pod, &pod.Spec.Containers[0], c.before)
		got := fmt.Sprint(r.GetCpuQuota(), r.GetMemoryLimitInBytes(), r.GetMemorySwapLimitInBytes())
		testutil.Assert(t, got == c.want, "%s: got %s, want %s", c.name, got, c.want)
	}
}

func TestSidecarIsKilledLast(t *testing.T) {
	pod := testPod(func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
		p.Spec.Containers[0].Resources.Requests = amounts("", "2Gi")
	})
	testutil.Equal(t, oomScore(pod, &pod.Spec.InitContainers[0], 4<<30), 500, "like the container that it serves")
	pod.Spec.PriorityClassName = "system-node-critical"
	testutil.Equal(t, oomScore(pod, &pod.Spec.Containers[0], 4<<30), oomGuaranteed, "score of a critical pod")
}

// TestOOMScoreOfUnassignedMemory: each container counts an equal part of the memory that only the pod itself requests.
func TestOOMScoreOfUnassignedMemory(t *testing.T) {
	pod := testPod(func(p *v1.Pod) {
		p.Spec.Containers = []v1.Container{{Name: "a"}, {Name: "b"}}
		p.Spec.Containers[0].Resources.Requests = amounts("", "1Gi")
		p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts("", "3Gi")}
	})
	testutil.Equal(t, oomScore(pod, &pod.Spec.Containers[0], 8<<30), 750, "score of a")
	testutil.Equal(t, oomScore(pod, &pod.Spec.Containers[1], 8<<30), 875, "score of b")
}

func TestHugepages(t *testing.T) {
	g := testGenerator(t, func(o *Options) { o.Host.HugepageSizes = []int64{2 << 20, 1 << 30} })
	got := g.hugepages(v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")})
	testutil.Assert(t, len(got) == 2 && got[0].GetPageSize() == "2MB" && got[0].GetLimit() == 4<<20 &&
		got[1].GetPageSize() == "1GB" && got[1].GetLimit() == 0, "got %v", got)
}
