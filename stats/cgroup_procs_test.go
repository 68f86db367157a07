package stats

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestProcsFile(t *testing.T) {
	for name, tc := range map[string]struct {
		trees          hierarchies
		driver, parent string
		want           string
	}{
		"version 2":         {onlyV2, "cgroupfs", "/kubepods/pod1", "/cg/kubepods/pod1/abc/cgroup.procs"},
		"version 1":         {onlyV1, "cgroupfs", "/docker", "/cg/memory/docker/abc/cgroup.procs"},
		"no slash":          {onlyV1, "cgroupfs", "docker", "/cg/memory/docker/abc/cgroup.procs"},
		"a slice":           {onlyV2, "systemd", "system.slice", "/cg/system.slice/docker-abc.scope/cgroup.procs"},
		"a slice of slices": {onlyV2, "systemd", "kubepods-besteffort-pod1.slice", "/cg/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/docker-abc.scope/cgroup.procs"},
		"the root's slice":  {onlyV2, "systemd", "-.slice", "/cg/docker-abc.scope/cgroup.procs"},
		"no cgroups":        {hierarchies{}, "cgroupfs", "/docker", ""},
		"outside of the mount": {hierarchies{unified: hierarchy{mountpoint: "/cg", root: "/docker/outer"}}, "cgroupfs",
			"/kubepods", ""},
	} {
		c := &Collector{trees: tc.trees}
		testutil.Equal(t, c.ProcsFile(tc.driver, tc.parent, "abc"), tc.want, "%s", name)
	}
}
