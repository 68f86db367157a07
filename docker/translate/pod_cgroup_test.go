package translate

import (
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
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
		"unlimited less overhead": {&r{CpuQuota: 25000}, &r{CpuQuota: -25001},
			[]string{"/c/cpu.cfs_period_us 100000", "/c/cpu.cfs_quota_us -1"}, []string{"/u/cpu.max max"}},
		"unlimited memory less overhead": {&r{MemoryLimitInBytes: 16 << 20}, &r{MemoryLimitInBytes: -1 - 16<<20},
			[]string{"/m/memory.limit_in_bytes -1"}, []string{"/u/memory.max max"}},
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

// A kubelet subtracts the overhead from the quota of the whole pod before UpdatePodSandboxResources.
func TestPodLimitsCheck(t *testing.T) {
	type r = runtimeapi.LinuxContainerResources
	for name, tc := range map[string]struct {
		overhead, resources *r
		field               string // of the error, empty for none
	}{
		"nothing":                      {nil, nil, ""},
		"no quota":                     {&r{CpuQuota: 25000}, &r{CpuPeriod: 100000}, ""},
		"no limit":                     {&r{CpuQuota: 25000}, &r{CpuQuota: -1}, ""},
		"no limit less the overhead":   {&r{CpuQuota: 25000, CpuPeriod: 100000}, &r{CpuQuota: -25001}, ""},
		"no memory limit":              {&r{MemoryLimitInBytes: 16 << 20}, &r{MemoryLimitInBytes: -1 - 16<<20}, ""},
		"an overhead of no memory":     {&r{MemoryLimitInBytes: -1}, nil, "overhead.memory_limit_in_bytes"},
		"a rest below the minimum":     {&r{CpuQuota: 25000}, &r{CpuQuota: 500, CpuPeriod: 100000}, ""},
		"a quota below the minimum":    {nil, &r{CpuQuota: 500}, "resources.cpu_quota"},
		"an overhead below it":         {&r{CpuQuota: 500}, &r{CpuQuota: 5000}, "overhead.cpu_quota"},
		"an overhead that is negative": {&r{CpuQuota: -2}, nil, "overhead.cpu_quota"},
		"an impossible period":         {&r{CpuQuota: 25000}, &r{CpuQuota: 5000, CpuPeriod: 1}, "resources.cpu_period"},
	} {
		t.Run(name, func(t *testing.T) {
			before := proto.CloneOf(tc.resources)
			err := PodLimits{Overhead: tc.overhead, Resources: tc.resources}.Check("linux.")
			if tc.field == "" {
				testutil.Check(t, err)
			} else {
				testutil.Fails(t, err, errdefs.IsInvalidArgument, "%s", name)
				testutil.Assert(t, strings.HasPrefix(err.Error(), "linux."+tc.field+":"), "the error is %v", err)
			}
			testutil.Assert(t, proto.Equal(before, tc.resources), "Check has changed the limits to %v", tc.resources)
		})
	}
}
