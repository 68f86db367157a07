package stats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// testdata/v2node.txtar is the tree of a node with cgroup v2 and systemd, as kubelet, engine and kernel make it. Its
// three pods differ in what their kernel and their slices have:
//
//	burstable   Linux 6.8: limits, a throttled container, pressure, a swapped container, several disks
//	besteffort  Linux 5.15 without psi: fewer lines, and unused disks on the lines of other disks; the container runs
//	            an engine, with cgroups below the container's cgroup
//	guaranteed  slices that hand down cpu and memory alone, and a container of two processes
type v2Pod struct {
	name, slice string
	// sandbox and container are the letters that the ids repeat. sandboxPID and containerPID are their processes.
	sandbox, container       string
	sandboxPID, containerPID int
	// below is the path of the container's process below the container's cgroup.
	below string
}

var v2Pods = []v2Pod{
	{"burstable", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f6c35a2_7d41_4a50_9f0e_6f6d1c1b2a01.slice", "a", "b", 6000001, 6000002, ""},
	{"besteffort", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod2e7d46b3_8e52_4b61_8a1f_7a7e2d2c3b02.slice", "c", "d", 6000003, 6000005, "/docker/" + strings.Repeat("e", 64)},
	{"guaranteed", "/kubepods.slice/kubepods-pod3d8e57c4_9f63_4c72_9b20_8b8f3e3d4c03.slice", "f", "9", 6000006, 6000007,
		""},
}

func (p v2Pod) scope(id string) string {
	return p.slice + "/docker-" + strings.Repeat(id, 64) + ".scope"
}

// cgroupView is the view of a process on the node's tree: the root of its mount, and the prefix of paths in its cgroup
// namespace.
type cgroupView struct{ root, prefix string }

// wholeNode is the view of the node itself.
var wholeNode = cgroupView{"/", ""}

func newV2Node(t *testing.T, view cgroupView) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{root: filepath.Join(dir, "cgroup"), proc: filepath.Join(dir, "proc"), cache: state.New(state.Options{})}
	unpack(t, "v2node", n.root)
	unended := filepath.Join(n.root, v2Pods[1].scope(v2Pods[1].sandbox), "io.stat")
	content, err := os.ReadFile(unended)
	testutil.Must(t, err)
	content = bytes.TrimSuffix(content, []byte("\n")) // an archive ends every file with a newline
	testutil.Must(t, os.WriteFile(unended, content, 0o644))
	shown := n.root
	if !strings.HasPrefix(view.root, "/..") {
		shown = filepath.Join(n.root, view.root) // the mount begins at that cgroup
	}
	n.write(t, "self/mountinfo",
		fmt.Sprintf(
			"30 20 0:26 %s %s rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "+
				"rw,nsdelegate,memory_recursiveprot\n", view.root, shown))
	for _, pod := range v2Pods {
		n.write(t, strconv.Itoa(pod.sandboxPID)+"/cgroup", "0::"+view.prefix+pod.scope(pod.sandbox)+"\n")
		n.write(t, strconv.Itoa(pod.containerPID)+"/cgroup", "0::"+view.prefix+pod.scope(pod.container)+pod.below+"\n")
		pod.put(n.cache)
	}
	n.collect(t)
	n.name(t, map[string]string{"259:0": "nvme0n1", "253:0": "dm-0", "253:1": "dm-1"})
	return n
}

// put publishes the pod and its container.
func (p v2Pod) put(cache *state.Cache) {
	cache.PutPod(state.Pod{
		ID: strings.Repeat(p.sandbox, 64),
		Meta: state.PodMeta{Name: "k8s_POD_" +
			p.name, ImageID: "sha256:pause", HostNetwork: true, Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: p.name, Namespace: "default", Uid: p.name},
			Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: p.slice},
		}},
		Status: state.PodStatus{Running: true, NetworkReady: true, PID: p.sandboxPID,
			StartedAt: time.Unix(1700000000, 0)},
	})
	cache.PutContainer(state.Container{
		ID: strings.Repeat(p.container, 64), SandboxID: strings.Repeat(p.sandbox, 64),
		Meta: state.ContainerMeta{Name: "k8s_main_" +
			p.name, CreatedAt: time.Unix(1700000000, 0), Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: "sha256:app", UserSpecifiedImage: "example.org/app:1"},
		}},
		Status: state.ContainerStatus{Running: true, PID: p.containerPID, StartedAt: time.Unix(1700000001, 0)},
	})
}

// v2Stats are the stats of a node's pods by their names.
func (n *node) v2Stats(t *testing.T) map[string]*runtimeapi.LinuxPodSandboxStats {
	t.Helper()
	byName := map[string]*runtimeapi.LinuxPodSandboxStats{}
	for _, pod := range n.pods(t) {
		byName[pod.Attributes.Metadata.Name] = pod.Linux
	}
	return byName
}

// All metrics of such a node.
func TestMetricsOfAV2Node(t *testing.T) {
	newV2Node(t, wholeNode).compareExposition(t, "metrics-v2node.txt")
}

// The stats RPCs for the same pods. A stat that a slice does not account is unknown for the pod and the container in
// the slice.
func TestStatsOfAV2Node(t *testing.T) {
	pods := newV2Node(t, wholeNode).v2Stats(t)
	testutil.Require(t, len(pods) == len(v2Pods), "pods %v", pods)
	for name, want := range map[string]struct {
		pod, container string
	}{
		"burstable": {
			"cpu 61000000000 memory 268435456 working set 208435456 available 60000000 processes 12 psi " +
				"30000000000 7000000000 5000000000 avg10 12.34",
			"cpu 60900000000 memory 267000000 working set 207000000 available 61435456 swap 1048576 of 66060288 " +
				"psi 29900000000 6900000000 4900000000 avg10 12.34",
		},
		"besteffort": {
			"cpu 2500000000 memory 50000000 working set 45000000 processes 7",
			"cpu 2400000000 memory 49000000 working set 44000000",
		},
		"guaranteed": {
			"cpu 7000000000 memory 120000000 working set 110000000 available 963741824 psi 1000000 2000000 " +
				"3000000 avg10 0",
			"cpu 6900000000 memory 119000000 working set 109000000 available 964741824 psi 1000000 2000000 " +
				"3000000 avg10 0",
		},
	} {
		pod := pods[name]
		got := describe(pod.Cpu, pod.Memory, nil, pod.Process, pod.Io)
		testutil.Assert(t, got == want.pod, "pod %s:\n got %s\nwant %s", name, got, want.pod)
		testutil.Require(t, len(pod.Containers) == 1, "pod %s: containers %v", name, pod.Containers)
		container := pod.Containers[0]
		got = describe(container.Cpu, container.Memory, container.Swap, nil, container.Io)
		testutil.Assert(t, got == want.container, "container of %s:\n got %s\nwant %s", name, got, want.container)
	}
}

// describe formats the known values in one line.
func describe(
	cpu *runtimeapi.CpuUsage, memory *runtimeapi.MemoryUsage, swap *runtimeapi.SwapUsage,
	processes *runtimeapi.ProcessUsage, io *runtimeapi.IoUsage,
) string {
	text := fmt.Sprintf("cpu %d memory %d working set %d", cpu.UsageCoreNanoSeconds.GetValue(),
		memory.UsageBytes.GetValue(), memory.WorkingSetBytes.GetValue())
	if memory.AvailableBytes != nil {
		text += fmt.Sprintf(" available %d", memory.AvailableBytes.Value)
	}
	if processes != nil {
		text += fmt.Sprintf(" processes %d", processes.ProcessCount.GetValue())
	}
	if swap != nil {
		text += fmt.Sprintf(" swap %d of %d", swap.SwapUsageBytes.GetValue(), swap.SwapAvailableBytes.GetValue())
	}
	if cpu.Psi != nil || memory.Psi != nil || io.GetPsi() != nil {
		text += fmt.Sprintf(" psi %d %d %d avg10 %v", cpu.Psi.GetSome().GetTotal(), memory.Psi.GetSome().GetTotal(),
			io.GetPsi().GetSome().GetTotal(), cpu.Psi.GetSome().GetAvg10())
	}
	return text
}

// A server in a container sees the node's tree in other places. Its stats are the same if it sees the pods at all.
func TestStatsFromACgroupNamespace(t *testing.T) {
	want := newV2Node(t, wholeNode).v2Stats(t)
	for name, test := range map[string]struct {
		view cgroupView
		sees bool
	}{
		"the pods' part is mounted":                   {cgroupView{"/kubepods.slice", ""}, true},
		"a namespace, and the node's tree is mounted": {cgroupView{"/../..", "/../.."}, true},
		"a namespace right below the root":            {cgroupView{"/..", "/.."}, true},
		"a namespace, and its own part is mounted":    {cgroupView{"/", "/../.."}, false},
		"a namespace, and too little is mounted":      {cgroupView{"/..", "/../.."}, false},
		"another part is mounted":                     {cgroupView{"/system.slice", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newV2Node(t, test.view)
			got := n.v2Stats(t)
			if !test.sees {
				testutil.Assert(t, len(got) == 0, "got %v, want nothing", got)
				return
			}
			for pod, linux := range want {
				g, w := got[pod].GetMemory().GetUsageBytes().GetValue(), linux.Memory.UsageBytes.Value
				testutil.Assert(t, g == w && len(got[pod].GetContainers()) == 1,
					"%s uses %d bytes and has %d containers, want %d and one", pod, g, len(got[pod].GetContainers()), w)
			}
		})
	}
}

// The engine names cgroups from the node's root, in any cgroup namespace of the server.
func TestEnginesPathsFromACgroupNamespace(t *testing.T) {
	pod := v2Pods[0]
	slice := filepath.Base(pod.slice)
	for name, test := range map[string]struct {
		view cgroupView
		sees bool
	}{
		"the node": {wholeNode, true},
		"a namespace, and the node's tree is mounted": {cgroupView{"/../..", "/../.."}, true},
		"another part is mounted":                     {cgroupView{"/system.slice", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newV2Node(t, test.view)
			procs := n.ProcsFile("systemd", slice, strings.Repeat(pod.container, 64))
			parent := n.ParentDirs("systemd", slice)[""]
			if !test.sees {
				testutil.Assert(t, procs == "" && parent == "", "got %q and %q, want nothing", procs, parent)
				return
			}
			testutil.Holds(t, procs, "6000002\n")
			testutil.Holds(t, filepath.Join(parent, "cpu.max"), "50000 100000\n")
		})
	}
}
