package stats

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/tools/txtar"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// The pids of the node in testdata. They are above the kernel's largest pid.
const (
	sandboxPID   = 5000001
	containerPID = 5000002
)

// node has a pod with one container. Their cgroups are copies of files in testdata, which a test may change.
type node struct {
	*Collector
	// root has the cgroup trees. proc stands in for /proc.
	root, proc string
	cache      *state.Cache
	pod        state.Pod
	container  state.Container
}

// The kinds of nodes.
const (
	v1Cgroupfs = "v1"
	v2Systemd  = "v2"
)

// nodes has the pod's cgroup parent for each kind, and /proc/PID/cgroup of the sandbox and the container.
var nodes = map[string]struct {
	parent, sandbox, container string
	// trees has the filesystem type and the options of the mount at each directory.
	trees map[string][2]string
}{
	v1Cgroupfs: {
		parent:    "/kubepods/poda",
		sandbox:   "7:hugetlb:/kubepods/poda/s1\n6:cpuset:/\n5:blkio:/kubepods/poda/s1\n4:memory:/kubepods/poda/s1\n3:pids:/kubepods/poda/s1\n2:cpuacct:/kubepods/poda/s1\n1:cpu:/kubepods/poda/s1\n0::/kubepods/poda/s1\n",
		container: "7:hugetlb:/kubepods/poda/c1\n6:cpuset:/\n5:blkio:/kubepods/poda/c1\n4:memory:/kubepods/poda/c1\n3:pids:/kubepods/poda/c1\n2:cpuacct:/kubepods/poda/c1\n1:cpu:/kubepods/poda/c1\n0::/kubepods/poda/c1/inner\n",
		trees: map[string][2]string{
			"blkio": {"cgroup", "rw,blkio"}, "memory": {"cgroup", "rw,memory"}, "pids": {"cgroup", "rw,pids"},
			"cpuacct": {"cgroup", "rw,cpuacct"}, "cpu": {"cgroup", "rw,cpu"}, "hugetlb": {"cgroup", "rw,hugetlb"},
			"unified": {"cgroup2", "rw"},
		},
	},
	v2Systemd: {
		parent:    "/kubepods.slice/kubepods-poda.slice",
		sandbox:   "0::/kubepods.slice/kubepods-poda.slice/docker-s1.scope\n",
		container: "0::/kubepods.slice/kubepods-poda.slice/docker-c1.scope/init.scope\n",
		trees:     map[string][2]string{"": {"cgroup2", "rw,nsdelegate"}},
	},
}

func newTestNode(t testing.TB, kind string, groups ...string) *node {
	t.Helper()
	what := nodes[kind]
	dir := t.TempDir()
	n := &node{root: filepath.Join(dir, "cgroup"), proc: filepath.Join(dir, "proc"), cache: state.New(state.Options{})}
	unpack(t, kind, n.root)
	unpack(t, "proc", n.proc)
	mountinfo := "20 1 253:0 / / rw - ext4 /dev/vda rw\n"
	for dir, mount := range what.trees {
		mountinfo += fmt.Sprintf("30 20 0:30 / %s rw,nosuid shared:9 - %s none %s\n", filepath.Join(n.root, dir),
			mount[0], mount[1])
	}
	n.write(t, "self/mountinfo", mountinfo)
	n.write(t, strconv.Itoa(sandboxPID)+"/cgroup", what.sandbox)
	n.write(t, strconv.Itoa(containerPID)+"/cgroup", what.container)

	n.collect(t, groups...)
	n.pod = state.Pod{
		ID: "s1",
		Meta: state.PodMeta{
			Name:    "k8s_POD_web_default_uid_0",
			ImageID: "sha256:pause",
			Config: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid"},
				Labels:   map[string]string{"app": "web"},
				Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: what.parent},
			},
		},
		Status: state.PodStatus{Running: true, NetworkReady: true, PID: sandboxPID,
			StartedAt: time.Now().Add(-10 * time.Second)},
	}
	n.container = state.Container{
		ID:        "c1",
		SandboxID: "s1",
		Meta: state.ContainerMeta{
			Name:      "k8s_main_web_default_uid_1",
			CreatedAt: time.Unix(1700000000, 0),
			Config: &runtimeapi.ContainerConfig{
				Metadata:    &runtimeapi.ContainerMetadata{Name: "main", Attempt: 1},
				Image:       &runtimeapi.ImageSpec{Image: "sha256:app", UserSpecifiedImage: "example.org/app:1"},
				Labels:      map[string]string{"tier": "front"},
				Annotations: map[string]string{"note": "kept"},
			},
		},
		Status: state.ContainerStatus{
			Running: true, PID: containerPID, StartedAt: time.Now().Add(-10 * time.Second),
			Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
				CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 512, MemoryLimitInBytes: 67108864,
			}},
		},
	}
	n.cache.PutPod(n.pod)
	n.cache.PutContainer(n.container)
	return n
}

// unpack writes the files of an archive in testdata to a directory.
func unpack(t testing.TB, name, dir string) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	testutil.Must(t, err)
	files, err := txtar.FS(archive)
	testutil.Must(t, err)
	testutil.Must(t, os.CopyFS(dir, files))
}

// collect starts the node's collector.
func (n *node) collect(t testing.TB, groups ...string) {
	t.Helper()
	var err error
	n.Collector, err = New(Options{procDir: n.proc, MetricGroups: groups})
	testutil.Must(t, err)
	n.pageSizes = []string{"2MB", "1GB"}
	t.Cleanup(n.Close)
}

func (n *node) write(t testing.TB, name, content string) {
	t.Helper()
	testutil.WriteFile(t, filepath.Join(n.proc, name), content)
}

// name gives the node's block devices names, by their numbers.
func (n *node) name(t testing.TB, names map[string]string) {
	t.Helper()
	n.blockDevices = t.TempDir()
	for number, name := range names {
		testutil.Must(t, os.Symlink("../../devices/virtual/block/"+name, filepath.Join(n.blockDevices, number)))
	}
}

// containers asks for the stats of all containers.
func (n *node) containers(t *testing.T) []*runtimeapi.ContainerStats {
	t.Helper()
	snapshot := n.cache.Snapshot()
	return n.Containers(t.Context(), snapshot, snapshot.Containers())
}

// pods asks for the stats of all pods.
func (n *node) pods(t *testing.T) []*runtimeapi.PodSandboxStats {
	t.Helper()
	snapshot := n.cache.Snapshot()
	return n.Pods(t.Context(), snapshot, snapshot.Pods())
}

// remembered returns the keys of the entries.
func (n *node) remembered() map[entryKey]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := map[entryKey]bool{}
	for key := range maps.Keys(n.entries) {
		keys[key] = true
	}
	return keys
}
