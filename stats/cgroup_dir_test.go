package stats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCgroupDir(t *testing.T) {
	const id = "0123abc"
	withHugetlb := hierarchies{v1: map[string]hierarchy{
		"memory":  {mountpoint: "/cg/memory", root: "/"},
		"hugetlb": {mountpoint: "/cg/hugetlb", root: "/"},
	}}
	for name, tc := range map[string]struct {
		trees   hierarchies
		content string
		dir     string
		unified bool
	}{
		"version 2": {onlyV2, "0::/kubepods/docker-0123abc.scope/init\n", "/cg/kubepods/docker-0123abc.scope",
			true},
		"version 1": {withHugetlb, "5:memory:/m/0123abc\n4:name=systemd:/s/0123abc\n3:hugetlb:/h/0123abc\n",
			"/cg/hugetlb/h/0123abc", false},
		"version 1 without hugetlb": {onlyV1, "5:memory:/m/0123abc\n", "", false},
		"process of another cgroup": {onlyV2, "0::/user.slice\n", "", true},
		"another hugetlb cgroup":    {withHugetlb, "5:memory:/m/0123abc\n3:hugetlb:/\n", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			testutil.WriteFile(t, filepath.Join(proc, "7", "cgroup"), tc.content)
			c := &Collector{proc: proc, trees: tc.trees}
			dir, unified, err := c.CgroupDir(id, 7, "hugetlb")
			testutil.Assert(t, dir == tc.dir && unified == tc.unified && errdefs.IsNotFound(err) == (tc.dir == ""),
				"got %q, %v, %v, want %q, %v", dir, unified, err, tc.dir, tc.unified)
			_, _, err = c.CgroupDir(id, 8, "hugetlb")
			testutil.Fails(t, err, errdefs.IsNotFound, "no such process")
		})
	}
}

// A process whose cgroup cannot be read is not gone: its limits must not be left out silently.
func TestCgroupDirOfAnUnreadableProcess(t *testing.T) {
	proc := t.TempDir()
	testutil.Must(t, os.MkdirAll(filepath.Join(proc, "7", "cgroup"), 0o700)) // a directory cannot be read as a file
	_, _, err := (&Collector{proc: proc, trees: onlyV2}).CgroupDir("0123abc", 7, "hugetlb")
	testutil.Assert(t, err != nil && !errdefs.IsNotFound(err), "got %v", err)
}
