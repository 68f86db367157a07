package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// parents has the parent cgroups of pods as plain directories of version 2.
type parents struct{ dir string }

func (parents) ProcsFile(string, string, string) string { return "" }

func (c parents) ParentDirs(driver, parent string) map[string]string {
	return map[string]string{"": filepath.Join(c.dir, driver, parent)}
}

// limitedPod returns the configuration of a pod with its own cgroup, and the cgroup's directory. The engine makes a
// missing directory when it starts the pod.
func (n *node) limitedPod(c parents) (*runtimeapi.PodSandboxConfig, string) {
	n.opts.Cgroups = c
	config := podConfig("web")
	config.Linux.CgroupParent = "/podweb"
	config.Linux.Overhead = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20}
	config.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 2 << 20, CpuShares: 2}
	dir := c.ParentDirs("cgroupfs", "/podweb")[""]
	n.engine.started = func(string) {
		if _, err := os.Stat(dir); err == nil {
			return
		}
		for _, file := range []string{"memory.max", "cpu.max", "cpu.weight"} {
			testutil.WriteFile(n, filepath.Join(dir, file), "kernel's")
		}
	}
	return config, dir
}

func TestPodsOwnCgroupIsLimited(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		config, dir := n.limitedPod(parents{n.TempDir()})
		id := n.runConfig(config)
		testutil.Holds(n, filepath.Join(dir, "memory.max"), "3145728")
		testutil.Holds(n, filepath.Join(dir, "cpu.weight"), "1")
		testutil.Holds(n, filepath.Join(dir, "cpu.max"), "kernel's")

		resources := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 4 << 20, CpuQuota: 5000, CpuPeriod: 10000}
		n.must(n.UpdateResources(n.Context(), id, nil, resources))
		testutil.Holds(n, filepath.Join(dir, "memory.max"), "5242880")
		testutil.Holds(n, filepath.Join(dir, "cpu.max"), "5000 10000")
		pod, err := n.cache.Snapshot().Pod(id)
		n.must(err)
		if !proto.Equal(pod.Status.Resources, resources) || pod.Status.Overhead.GetMemoryLimitInBytes() != 1<<20 {
			n.Errorf("the cache has %v and %v", pod.Status.Overhead, pod.Status.Resources)
		}

		// One limit cannot be written, because memory.max is missing. Then no limit changes.
		n.must(os.Remove(filepath.Join(dir, "memory.max")))
		err = n.UpdateResources(n.Context(), id, nil,
			&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 9 << 20, CpuQuota: 1000})
		testutil.Fails(n, err, errdefs.IsInvalidArgument, "a limit that cannot be written")
		testutil.Holds(n, filepath.Join(dir, "cpu.max"), "5000 10000")

		n.restart()
		pod, err = n.cache.Snapshot().Pod(id)
		n.must(err)
		testutil.Assert(n, proto.Equal(pod.Status.Resources, resources),
			"after a restart the cache has %v", pod.Status.Resources)
	})
}

// A kubelet's cgroup belongs to the kubelet, which announces a resize before it writes.
func TestAKubeletsCgroupIsLeftAlone(t *testing.T) {
	onEachKind(t, func(n *node) {
		config, dir := n.limitedPod(parents{n.TempDir()})
		for _, file := range []string{"memory.max", "cpu.max", "cpu.weight"} {
			testutil.WriteFile(n, filepath.Join(dir, file), "kubelet's")
		}
		id := n.runConfig(config)
		n.must(
			n.UpdateResources(n.Context(), id, &runtimeapi.LinuxContainerResources{},
				&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 4 << 20}))
		testutil.Holds(n, filepath.Join(dir, "memory.max"), "kubelet's")
		record, err := n.store.Load(n.Context(), id)
		n.must(err)
		if record.Cgroup != nil {
			n.Errorf("the record has %+v", record.Cgroup)
		}
		n.must(n.Remove(n.Context(), id))
		_, err = os.Stat(dir)
		testutil.Check(n, err)
	})
}

func TestPodsOwnCgroupGoesWithIt(t *testing.T) {
	onEachKind(t, func(n *node) {
		config, dir := n.limitedPod(parents{n.TempDir()})
		config.Linux.Overhead, config.Linux.Resources = nil, nil
		n.engine.started = func(string) { n.must(os.MkdirAll(dir, 0o755)) }
		id := n.runConfig(config)
		n.must(n.Remove(n.Context(), id))
		_, err := os.Stat(dir)
		testutil.Assert(n, errors.Is(err, os.ErrNotExist), "%s is left, %v", dir, err)

		config.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20}
		_, err = n.Run(n.Context(), config, "")
		testutil.Assert(n, err != nil, "a pod was made whose limits cannot be set")
		_, err = os.Stat(dir)
		testutil.Assert(n, errors.Is(err, os.ErrNotExist), "a pod that failed leaves %s, %v", dir, err)
	})
}

func TestUpdateResourcesRefuses(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		update := func(id string, r *runtimeapi.LinuxContainerResources) error {
			return n.UpdateResources(n.Context(), id, nil, r)
		}
		testutil.Fails(n, update("feed", nil), errdefs.IsNotFound, "an unknown pod")
		testutil.Fails(n, update(id, &runtimeapi.LinuxContainerResources{CpuShares: -1}), errdefs.IsInvalidArgument,
			"negative CPU shares")
		n.must(n.Stop(n.Context(), id))
		testutil.Fails(n, update(id, nil), errdefs.IsFailedPrecondition, "a stopped pod")
	})
}
