package translate

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPodLimits(t *testing.T) {
	type r = runtimeapi.LinuxContainerResources
	v1, v2 := map[string]string{"cpu": "/c", "memory": "/m", "pids": "/p"}, map[string]string{"": "/u"}
	for name, tc := range map[string]struct {
		overhead, resources *r
		v1, v2              []string
	}{
		"nothing said": {nil, nil, nil, nil},
		"a kubelet's best effort": {&r{}, &r{CpuShares: 2, CpuPeriod: 100000}, []string{"/c/cpu.shares 2"},
			[]string{"/u/cpu.weight 1"}},
		"limits": {
			&r{}, &r{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 50000, MemoryLimitInBytes: 64 << 20},
			[]string{"/c/cpu.shares 1024", "/c/cpu.cfs_period_us 100000", "/c/cpu.cfs_quota_us 50000",
				"/m/memory.limit_in_bytes 67108864"},
			[]string{"/u/cpu.weight 39", "/u/cpu.max 50000 100000", "/u/memory.max 67108864"},
		},
		"limits and overhead": {
			&r{CpuShares: 256, CpuPeriod: 50000, CpuQuota: 25000, MemoryLimitInBytes: 16 << 20},
			&r{CpuShares: 256, CpuQuota: 50000, MemoryLimitInBytes: 16 << 20},
			[]string{"/c/cpu.shares 512", "/c/cpu.cfs_period_us 100000", "/c/cpu.cfs_quota_us 100000",
				"/m/memory.limit_in_bytes 33554432"},
			[]string{"/u/cpu.weight 20", "/u/cpu.max 100000 100000", "/u/memory.max 33554432"},
		},
		"overhead without limits": {&r{CpuQuota: 25000, MemoryLimitInBytes: 16 << 20}, &r{CpuQuota: -1},
			[]string{"/c/cpu.cfs_period_us 100000", "/c/cpu.cfs_quota_us -1"}, []string{"/u/cpu.max max"}},
		"more than all": {nil, &r{CpuShares: 1 << 40}, []string{"/c/cpu.shares 1099511627776"},
			[]string{"/u/cpu.weight 10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := PodLimits{Overhead: tc.overhead, Resources: tc.resources}
			for _, version := range []struct {
				dirs map[string]string
				want []string
			}{{v1, tc.v1}, {v2, tc.v2}, {nil, nil}} {
				var got []string
				for _, file := range limits.Files(version.dirs) {
					got = append(got, file.Name+" "+file.Value)
				}
				testutil.Assert(t, slices.Equal(got, version.want), "got %q, want %q", got, version.want)
			}
		})
	}
}
