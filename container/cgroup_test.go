package container

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// plainCgroup is a container's cgroup of version 2, in plain files.
type plainCgroup struct {
	t   *testing.T
	dir string
}

// newCgroup gives the node's containers a cgroup with these files, each "max".
func newCgroup(t *testing.T, n *node, files ...string) plainCgroup {
	c := plainCgroup{t, t.TempDir()}
	for _, name := range files {
		testutil.Must(t, os.WriteFile(filepath.Join(c.dir, name), []byte("max"), 0o644))
	}
	n.opts.Cgroups = c
	return c
}

func (c plainCgroup) CgroupDir(id string, pid int, controller string) (string, bool, error) {
	if id == "" || pid <= 0 || controller == "" {
		return "", false, errors.New("an argument is missing")
	}
	return c.dir, true, nil
}

func (plainCgroup) OOMKills(string, string) (uint64, bool) { return 0, false }

func (c plainCgroup) want(file, value string) {
	c.t.Helper()
	testutil.Holds(c.t, filepath.Join(c.dir, file), value)
}

func unified(keys map[string]string) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{
		Unified:        keys,
		HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 2 << 20}},
	}
}

func (n *node) createLimited(keys map[string]string) string {
	n.t.Helper()
	config := n.config("sleep")
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: unified(keys)}
	return n.create(n.pod(), config)
}

func TestLimitsInCgroupFiles(t *testing.T) {
	n, _ := newFakeNode(t)
	c := newCgroup(t, n, "memory.high", "memory.oom.group", "hugetlb.2MB.max")
	id := n.createLimited(map[string]string{"memory.high": "100", "memory.oom.group": "1"})
	c.want("memory.high", "max")
	n.start(id)
	c.want("memory.high", "100")
	c.want("memory.oom.group", "1")
	c.want("hugetlb.2MB.max", "2097152")
	_, err := os.Stat(filepath.Join(c.dir, "hugetlb.2MB.rsvd.max"))
	testutil.Assert(t, err != nil, "a file was made that the kernel does not have")
	testutil.Must(t, n.Update(t.Context(),
		update(id, &runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.high": "max"}})))
	c.want("memory.high", "max")

	// criadapter crashes before it writes the limits.
	testutil.Must(t, os.WriteFile(filepath.Join(c.dir, "hugetlb.2MB.max"), []byte("max"), 0o644))
	n.reboot(func() {})
	n.opts.Cgroups = c
	testutil.Must(t, n.Recover(t.Context()))
	c.want("hugetlb.2MB.max", "2097152")
}

func TestUpdateOfCgroupFilesIsWholeOrNot(t *testing.T) {
	n, engine := newFakeNode(t)
	c := newCgroup(t, n, "hugetlb.2MB.max", "memory.high")
	config := n.config("sleep")
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: unified(map[string]string{"memory.high": "100"})}
	config.Linux.Resources.CpuShares = 512 // a limit that is unset cannot be restored
	id := n.started(n.pod(), config)
	change := &runtimeapi.LinuxContainerResources{CpuShares: 99,
		Unified: map[string]string{"memory.high": "7", "memory.nosuch": "1"}}
	err := n.Update(t.Context(), update(id, change))
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "linux.unified[memory.nosuch]: ") {
		t.Errorf("a file that the kernel does not have: %v", err)
	}
	c.want("memory.high", "100")
	after, err := engine.InspectContainer(t.Context(), id)
	testutil.Assert(t, err == nil && after.HostConfig.CPUShares == 512,
		"the engine keeps %+v, %v", after.HostConfig.CPUShares, err)
	got := n.look(id).Status.Resources.GetLinux().GetUnified()
	testutil.Assert(t, len(got) == 1 && got["memory.high"] == "100", "the cache has %v", got)

	change.Unified = map[string]string{"memory.high": "7"}
	n.withoutStore(func() {
		err := n.Update(t.Context(), update(id, change))
		testutil.Assert(t, err != nil, "Update succeeded without a checkpoint")
	})
	c.want("memory.high", "100")
}

// If a limit in the request cannot be applied, the container does not run.
func TestContainerWhoseLimitsAreRefusedIsKilled(t *testing.T) {
	n, _ := newFakeNode(t)
	newCgroup(t, n)
	id := n.createLimited(map[string]string{"memory.nosuch": "1"})
	err := n.Start(t.Context(), id)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) &&
		strings.Contains(err.Error(), "config.linux.resources.unified[memory.nosuch]: "), "Start: %v", err)
	n.wantState(id, exited)

	// The value "max" asks for no limit, so it needs no file.
	n.start(n.createLimited(map[string]string{"memory.high": "max"}))
}
