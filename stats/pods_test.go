package stats

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPods(t *testing.T) {
	for _, kind := range []string{v1Cgroupfs, v2Systemd} {
		t.Run(kind, func(t *testing.T) {
			n := newTestNode(t, kind)
			pod := onlyPod(t, n)
			wantAttributes := &runtimeapi.PodSandboxAttributes{
				Id:       "s1",
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid"},
				Labels:   map[string]string{"app": "web"},
			}
			testutil.Assert(t, proto.Equal(pod.Attributes, wantAttributes), "attributes %v", pod.Attributes)
			linux := pod.Linux
			for what, value := range map[string][2]uint64{
				"cpu":         {linux.Cpu.UsageCoreNanoSeconds.GetValue(), 8100000000},
				"usage":       {linux.Memory.UsageBytes.GetValue(), 11000000},
				"working set": {linux.Memory.WorkingSetBytes.GetValue(), 11000000 - 1600000},
				"processes":   {linux.Process.ProcessCount.GetValue(), 6},
				"io pressure": {linux.Io.GetPsi().GetFull().GetTotal(), 4000000000},
			} {
				testutil.Assert(t, value[0] == value[1], "%s: %d, want %d", what, value[0], value[1])
			}
			testutil.Assert(t, linux.Memory.AvailableBytes == nil && linux.Cpu.UsageNanoCores != nil,
				"available %v, nano cores %v", linux.Memory.AvailableBytes, linux.Cpu.UsageNanoCores)
			testutil.Assert(t, len(linux.Containers) == 1 && linux.Containers[0].Attributes.Id == "c1",
				"containers %v", linux.Containers)
		})
	}
}

func onlyPod(t *testing.T, n *node) *runtimeapi.PodSandboxStats {
	t.Helper()
	list := n.pods(t)
	testutil.Require(t, len(list) == 1, "%d pods", len(list))
	return list[0]
}

// The stats of a pod without its own cgroup are the sum over its sandbox and its containers.
func TestPodsWithoutACgroupOfTheirOwn(t *testing.T) {
	for name, parent := range map[string]string{"none": "", "root": "/", "another one": "/somewhere/else"} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t, v1Cgroupfs)
			n.pod.Meta.Config.Linux.CgroupParent = parent
			n.cache.PutPod(n.pod)
			linux := onlyPod(t, n).Linux
			testutil.Equal(t, linux.Cpu.UsageCoreNanoSeconds.GetValue(), 8040000000, "cpu")
			testutil.Equal(t, linux.Memory.UsageBytes.GetValue(), 10500000, "usage")
			// The sandbox in testdata has more inactive cache than usage.
			testutil.Equal(t, linux.Memory.WorkingSetBytes.GetValue(), 9200000, "working set")
			testutil.Equal(t, linux.Process.ProcessCount.GetValue(), 6, "processes")
		})
	}
}

func TestPodsNetwork(t *testing.T) {
	usage := func(name string, rx, rxErrors, tx, txErrors uint64) *runtimeapi.NetworkInterfaceUsage {
		return &runtimeapi.NetworkInterfaceUsage{
			Name: name, RxBytes: number(rx), RxErrors: number(rxErrors), TxBytes: number(tx),
			TxErrors: number(txErrors),
		}
	}
	n := newTestNode(t, v2Systemd)
	got := onlyPod(t, n).Linux.Network
	testutil.Assert(t, got.GetTimestamp() != 0 &&
		proto.Equal(got.DefaultInterface, usage("eth0", 1234567, 5, 7654321, 7)), "default interface %v", got)
	testutil.Assert(t, len(got.Interfaces) == 1 && proto.Equal(got.Interfaces[0], usage("net1", 7000, 1, 8000, 3)),
		"the other interfaces %v", got.Interfaces)

	for name, change := range map[string]func(){
		"host network": func() { n.pod.Meta.HostNetwork = true },
		"namespace gone": func() {
			n.pod.Meta.HostNetwork, n.pod.Status.NetnsPath = false, filepath.Join(n.proc, "gone")
		},
		// no process with the sandbox's PID is in this namespace
		"another namespace": func() { n.pod.Status.NetnsPath = "/proc/self/ns/net" },
		"no file": func() {
			n.pod.Status.NetnsPath = ""
			testutil.Must(t, os.RemoveAll(filepath.Join(n.proc, "5000001", "net")))
		},
	} {
		change()
		n.cache.PutPod(n.pod)
		network := onlyPod(t, n).Linux.Network
		testutil.Assert(t, network == nil, "%s: %v", name, network)
	}
}

// A value that is unknown for one container is unknown in a pod's sum.
func TestPodsThatAreASumOfUnknowns(t *testing.T) {
	for file, known := range map[string]func(*runtimeapi.LinuxPodSandboxStats) bool{
		"cpuacct.usage":         func(l *runtimeapi.LinuxPodSandboxStats) bool { return l.Cpu != nil },
		"memory.usage_in_bytes": func(l *runtimeapi.LinuxPodSandboxStats) bool { return l.Memory != nil },
		"pids.current":          func(l *runtimeapi.LinuxPodSandboxStats) bool { return l.Process != nil },
		"memory.stat":           func(l *runtimeapi.LinuxPodSandboxStats) bool { return l.Memory.GetRssBytes() != nil },
	} {
		n := newTestNode(t, v1Cgroupfs)
		n.pod.Meta.Config.Linux.CgroupParent = ""
		n.cache.PutPod(n.pod)
		testutil.Assert(t, known(onlyPod(t, n).Linux), "%s: unknown before the file was removed", file)
		paths, err := filepath.Glob(filepath.Join(n.root, "*", "kubepods", "poda", "c1", file))
		if err != nil || len(paths) != 1 {
			t.Fatal(paths, err)
		}
		testutil.Must(t, os.Remove(paths[0]))
		testutil.Assert(t, !known(onlyPod(t, n).Linux),
			"without %s of the container, the sandbox's value is reported for the pod", file)
	}
}

// Lists leave out a pod whose sandbox does not run. A request by id reports 0 for it. The usage of a running pod that
// cannot be read is unknown.
func TestPodsThatAreGone(t *testing.T) {
	n := newTestNode(t, v1Cgroupfs)
	testutil.Must(t, os.RemoveAll(n.root))
	list := n.pods(t)
	testutil.Assert(t, len(list) == 0, "without its cgroup: %v", list)
	unknown := n.Pod(t.Context(), n.cache.Snapshot(), &n.pod)
	linux := unknown.Linux
	testutil.Assert(t, unknown.Attributes.GetId() == "s1" && linux.Cpu == nil && linux.Memory == nil &&
		linux.Process == nil && linux.Io == nil, "without its cgroup, by id: %v", unknown)
	n = newTestNode(t, v1Cgroupfs)
	n.pod.Status.Running, n.pod.Status.PID = false, 0
	n.cache.PutPod(n.pod)
	list = n.pods(t)
	testutil.Assert(t, len(list) == 0, "not running: %v", list)
	got := n.Pod(t.Context(), n.cache.Snapshot(), &n.pod)
	testutil.Assert(t, got.Attributes.GetId() == "s1" && got.Linux.Cpu.Timestamp != 0 &&
		got.Linux.Memory.UsageBytes.GetValue() == 0, "got %v", got)
}
