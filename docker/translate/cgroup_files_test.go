package translate

import (
	"reflect"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCgroupFiles(t *testing.T) {
	hugepages := []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 4 << 20}, {PageSize: "1GB"}}
	unified := map[string]string{"memory.oom.group": "1", "memory.high": "max", "memory.swap.max": "0"}
	limits := []CgroupFile{
		{"hugetlb.2MB.max", "4194304", "hugepage_limits[0]", true},
		{"hugetlb.2MB.rsvd.max", "4194304", "hugepage_limits[0]", true},
		{"hugetlb.1GB.max", "0", "hugepage_limits[1]", true},
		{"hugetlb.1GB.rsvd.max", "0", "hugepage_limits[1]", true},
	}
	keys := []CgroupFile{
		{"memory.high", "max", "unified[memory.high]", true},
		{"memory.oom.group", "1", "unified[memory.oom.group]", false},
	}
	for name, tc := range map[string]struct {
		resources *runtimeapi.LinuxContainerResources
		unified   bool
		want      []CgroupFile
	}{
		"none": {nil, true, nil},
		"version 2": {
			&runtimeapi.LinuxContainerResources{HugepageLimits: hugepages, Unified: unified,
				MemoryLimitInBytes: 1 << 20}, true, append(limits, keys...)},
		"no memory": {&runtimeapi.LinuxContainerResources{Unified: unified}, true,
			append(keys[:2:2], CgroupFile{"memory.swap.max", "0", "unified[memory.swap.max]", true})},
		"version 1": {&runtimeapi.LinuxContainerResources{HugepageLimits: hugepages[:1], Unified: unified}, false,
			[]CgroupFile{
				{"hugetlb.2MB.limit_in_bytes", "4194304", "hugepage_limits[0]", true},
				{"hugetlb.2MB.rsvd.limit_in_bytes", "4194304", "hugepage_limits[0]", true},
			}},
	} {
		got := CgroupFiles(tc.resources, tc.unified)
		testutil.Assert(t, reflect.DeepEqual(got, tc.want), "%s: %+v, want %+v", name, got, tc.want)
	}
}

func TestUnifiedKeys(t *testing.T) {
	for key, good := range map[string]bool{
		"memory.high": true, "memory.oom.group": true, "io.max": true, "hugetlb.2MB.max": true,
		"": false, "memory": false, ".max": false, "memory.": false, "..": false, "../memory.max": false,
		"cgroup.procs": false, "cgroup.kill": false, "memory/high": false,
	} {
		err := checkResources("linux", &runtimeapi.LinuxContainerResources{Unified: map[string]string{key: "1"}})
		if good && err != nil || !good && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
