package docker

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLimitedHugePages(t *testing.T) {
	root := t.TempDir()
	for _, size := range []string{"hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB", "other"} {
		testutil.WriteFile(t, filepath.Join(root, "sys/kernel/mm/hugepages", size, "nr_hugepages"), "0")
	}
	const head = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t17\t1\n"
	all := []string{"1GB", "2MB", "64KB"}
	for name, c := range map[string]struct {
		version  int
		v1, v2   string
		expected []string
	}{
		"mounted":          {1, head + "hugetlb\t9\t3\t1\n", "", all},
		"not mounted":      {1, head + "hugetlb\t0\t1\t1\n", "hugetlb\n", nil},
		"disabled":         {1, head + "hugetlb\t9\t1\t0\n", "", nil},
		"not in v1":        {1, head, "", nil},
		"of version 2":     {2, head + "hugetlb\t0\t1\t1\n", "cpu hugetlb memory\n", all},
		"not in version 2": {2, head + "hugetlb\t9\t1\t1\n", "cpu memory\n", nil},
	} {
		testutil.WriteFile(t, filepath.Join(root, "proc/cgroups"), c.v1)
		testutil.WriteFile(t, filepath.Join(root, "sys/fs/cgroup/cgroup.controllers"), c.v2)
		got := limitedHugePages(root, c.version)
		testutil.Assert(t, slices.Equal(got, c.expected), "%s: got %v, want %v", name, got, c.expected)
	}
}
