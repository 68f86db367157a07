package translate

import (
	"math"
	"reflect"
	"testing"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestResources(t *testing.T) {
	noSwap := oldEngine()
	noSwap.SwapLimit = false
	const mib = 1 << 20
	for _, tc := range []struct {
		name     string
		given    *runtimeapi.LinuxContainerResources
		features docker.Features
		want     container.Resources
	}{
		{"none", nil, oldEngine(), container.Resources{}},
		{"empty", &runtimeapi.LinuxContainerResources{}, oldEngine(), container.Resources{}},
		{"CPU",
			&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 512, CpusetCpus: "0-3,7",
				CpusetMems: "0"}, oldEngine(),
			container.Resources{CPUPeriod: 100000, CPUQuota: 50000, CPUShares: 512, CpusetCpus: "0-3,7",
				CpusetMems: "0"}},
		{"CPU without limit", &runtimeapi.LinuxContainerResources{CpuQuota: -1}, oldEngine(),
			container.Resources{CPUQuota: -1}},
		{"memory allows no swap", &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib}, oldEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: 64 * mib}},
		{"swap", &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib, MemorySwapLimitInBytes: 96 * mib},
			oldEngine(), container.Resources{Memory: 64 * mib, MemorySwap: 96 * mib}},
		{"swap without limit",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib, MemorySwapLimitInBytes: -1}, oldEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: -1}},
		{"any swap without memory", &runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: -1}, oldEngine(),
			container.Resources{}},
		{"swap without memory, no swap on the node",
			&runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: 96 * mib}, noSwap, container.Resources{}},
		{"an engine that cannot limit swap",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib, MemorySwapLimitInBytes: 96 * mib}, noSwap,
			container.Resources{Memory: 64 * mib, MemorySwap: -1}},
		{"the kubelet's swap on cgroup v2",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib,
				Unified: map[string]string{"memory.swap.max": "33554432"}}, newEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: 96 * mib}},
		{"the kubelet's no swap on cgroup v2",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib,
				Unified: map[string]string{"memory.swap.max": "0"}}, newEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: 64 * mib}},
		{"any swap on cgroup v2",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib,
				Unified: map[string]string{"memory.swap.max": "max"}}, newEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: -1}},
		{"more swap than a number holds",
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 * mib,
				Unified: map[string]string{"memory.swap.max": "9223372036854775807"}}, newEngine(),
			container.Resources{Memory: 64 * mib, MemorySwap: -1}},
		{"the 1.37 kubelet's memory.high",
			&runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.high": "max", "memory.min": "0"}},
			newEngine(), container.Resources{}},
		{"huge pages",
			&runtimeapi.LinuxContainerResources{
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: math.MaxUint64},
					{PageSize: "1GB"}}}, oldEngine(), container.Resources{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Resources(tc.given, tc.features)
			testutil.Must(t, err)
			testutil.Assert(t, reflect.DeepEqual(got, tc.want), "got %+v, want %+v", got, tc.want)
		})
	}
}

func TestContainerOOMScore(t *testing.T) {
	for _, tc := range []struct {
		given    int64
		negative bool
		want     int
	}{
		{-997, true, -997}, {-997, false, 0}, {0, false, 0}, {1000, false, 1000}, {-1000, true, -1000},
	} {
		in := containerInput()
		in.Features.NegativeOOMScore = tc.negative
		in.Config.Linux.Resources.OomScoreAdj = tc.given
		testutil.Equal(t, mustContainer(t, in).Host.OomScoreAdj, tc.want, "%+v gives", tc)
	}
}
