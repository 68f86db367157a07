package stats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// bare removes the pod's sandbox container.
func (n *node) bare(netnsPath string) {
	n.pod.Status.PID = 0
	n.pod.Status.NetnsPath = netnsPath
	n.pod.Status.Namespaces = &checkpoint.Namespaces{Dir: "/run/p"}
	n.cache.PutPod(n.pod)
}

// A pod without a sandbox container has the stats of its cgroup, like a pod with one.
func TestPodWithoutASandboxContainer(t *testing.T) {
	for kind := range nodes {
		t.Run(kind, func(t *testing.T) {
			n := newTestNode(t, kind, "cpu", "network")
			with := n.pods(t)[0].GetLinux()
			n.bare("")
			without := n.pods(t)
			testutil.Require(t, len(without) == 1, "there are stats of %d pods", len(without))
			got := without[0].GetLinux()
			if got.GetMemory().GetUsageBytes().GetValue() != with.GetMemory().GetUsageBytes().GetValue() ||
				got.GetCpu().GetUsageCoreNanoSeconds().GetValue() != with.GetCpu().GetUsageCoreNanoSeconds().
					GetValue() || len(got.GetContainers()) != 1 {
				t.Errorf("got %v, want %v", got, with)
			}
			metrics := n.Metrics(t.Context(), n.cache.Snapshot())
			testutil.Assert(t, len(metrics) == 1 && len(metrics[0].GetMetrics()) != 0, "the metrics are %v", metrics)
			n.cache.RemoveContainer(n.container.ID)
			empty := n.pods(t)
			testutil.Assert(t, len(empty) == 1 && empty[0].GetLinux().GetCpu().GetUsageCoreNanoSeconds().GetValue() ==
				with.GetCpu().GetUsageCoreNanoSeconds().GetValue(), "without containers: %v", empty)
		})
	}
}

// The usage of a pod without its own cgroup is the sum over its containers.
func TestPodWithoutASandboxContainerAndACgroup(t *testing.T) {
	n := newTestNode(t, v1Cgroupfs)
	n.pod.Meta.Config.Linux.CgroupParent = ""
	n.bare("")
	pod := n.pods(t)[0].GetLinux()
	container := pod.GetContainers()[0]
	got, want := pod.GetMemory().GetUsageBytes().GetValue(), container.GetMemory().GetUsageBytes().GetValue()
	testutil.Assert(t, got == want && want != 0, "the pod uses %d bytes, its container %d", got, want)
}

// The interfaces are read in the pod's namespace if no process of the pod is known.
func TestInterfacesWithoutAProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make and mount a network namespace")
	}
	dir := filepath.Join(t.TempDir(), "netns")
	testutil.Must(t, netns.ShareDir(dir))
	set := netns.Set{Network: filepath.Join(dir, "pod")}
	testutil.Must(t, set.Make(t.Context()))
	t.Cleanup(func() {
		testutil.Must(t, set.Unpin())
		testutil.Must(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	n := newTestNode(t, v1Cgroupfs)
	n.bare(set.Network)
	content, err := n.netDev(t.Context(), &reader{}, &n.pod)
	lines := strings.Count(string(content), ":")
	testutil.Assert(t, err == nil && lines == 1 && strings.Contains(string(content), "lo:"),
		"a new namespace has %q, %v; want the loopback interface alone", content, err)
	for name, pod := range map[string]state.Pod{
		"its namespace is gone": {Status: state.PodStatus{NetnsPath: filepath.Join(dir, "gone")}},
		"on the node's": {Meta: state.PodMeta{HostNetwork: true},
			Status: state.PodStatus{NetnsPath: set.Network}},
		"no namespace, no process": {},
	} {
		content, err := n.netDev(t.Context(), &reader{}, &pod)
		testutil.Assert(t, err != nil, "%s: %q", name, content)
	}
}
