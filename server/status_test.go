package server

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

func TestContainerStatus(t *testing.T) {
	n := newNode()
	mounts := []*runtimeapi.Mount{
		{ContainerPath: "/data", HostPath: "/srv", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL}}
	limits := &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20}}
	n.cache.PutContainer(state.Container{
		ID:        "c1",
		SandboxID: "p1",
		Meta: state.ContainerMeta{
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: 2},
				Image: &runtimeapi.ImageSpec{
					Image: "sha256:1", UserSpecifiedImage: "busybox:1.29", RuntimeHandler: "runsc"},
				Labels:      map[string]string{"a": "b"},
				Annotations: map[string]string{"c": "d"},
				Mounts:      mounts,
				Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					SupplementalGroups: []int64{50000}, SupplementalGroupsPolicy: strictGroups,
				}},
			},
			ImageID:    "sha256:1",
			ImageRef:   "busybox@sha256:2",
			CreatedAt:  time.Unix(1, 1),
			LogPath:    "/var/log/pods/x/main/2.log",
			User:       "1000:2000",
			StopSignal: "SIGQUIT",
		},
		Status: state.ContainerStatus{
			StartedAt: time.Unix(2, 2), FinishedAt: time.Unix(3, 3), ExitCode: 137, OOMKilled: true, Resources: limits,
		},
	})
	response, err := n.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "c1"})
	testutil.Must(t, err)
	want := &runtimeapi.ContainerStatus{
		Id:          "c1",
		Metadata:    &runtimeapi.ContainerMetadata{Name: "main", Attempt: 2},
		State:       runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt:   1e9 + 1,
		StartedAt:   2e9 + 2,
		FinishedAt:  3e9 + 3,
		ExitCode:    137,
		Image:       &runtimeapi.ImageSpec{Image: "busybox:1.29", UserSpecifiedImage: "busybox:1.29"},
		ImageRef:    "busybox@sha256:2",
		ImageId:     "sha256:1",
		Reason:      "OOMKilled",
		Labels:      map[string]string{"a": "b"},
		Annotations: map[string]string{"c": "d"},
		Mounts:      mounts,
		LogPath:     "/var/log/pods/x/main/2.log",
		Resources:   limits,
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: 1000, Gid: 2000, SupplementalGroups: []int64{2000, 50000},
		}},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGQUIT,
	}
	testutil.Assert(t, proto.Equal(response.GetStatus(), want), "got  %v\nwant %v", response.GetStatus(), want)
	testutil.Assert(t, len(response.GetInfo()) == 0, "info without verbose")
}

func TestReason(t *testing.T) {
	created, started, finished := time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	for _, test := range []struct {
		name   string
		status state.ContainerStatus
		want   string
	}{
		{"created", state.ContainerStatus{}, ""},
		{"running", state.ContainerStatus{Running: true, StartedAt: started}, ""},
		{"unknown", state.ContainerStatus{Unknown: true}, ""},
		{"completed", state.ContainerStatus{StartedAt: started, FinishedAt: finished}, "Completed"},
		{"failed", state.ContainerStatus{StartedAt: started, FinishedAt: finished, ExitCode: 1}, "Error"},
		{"OOM-killed", state.ContainerStatus{StartedAt: started, FinishedAt: finished, ExitCode: 137, OOMKilled: true},
			"OOMKilled"},
		{"succeeded although a child was OOM-killed",
			state.ContainerStatus{StartedAt: started, FinishedAt: finished, OOMKilled: true}, "Completed"},
		{"start refused",
			state.ContainerStatus{StartedAt: started, FinishedAt: finished, ExitCode: 127, Error: "no such file"},
			"ContainerCannotRun"},
		{"start refused without words", state.ContainerStatus{StartedAt: created, FinishedAt: created, ExitCode: 128},
			"ContainerCannotRun"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &state.Container{Meta: state.ContainerMeta{CreatedAt: created}, Status: test.status}
			testutil.Equal(t, reason(c), test.want, "reason")
		})
	}
}

const strictGroups = runtimeapi.SupplementalGroupsPolicy_Strict

func TestUserIsReportedOnlyWhenItIsKnown(t *testing.T) {
	for user, known := range map[string]bool{
		"1000:1000": true, "0:0": true, "1000": false, "www-data": false, "www-data:33": false, "33:www-data": false,
		"": false,
	} {
		sc := &runtimeapi.LinuxContainerSecurityContext{}
		c := &state.Container{Meta: state.ContainerMeta{User: user, Config: &runtimeapi.ContainerConfig{
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: sc}}}}
		got := containerUser(c)
		testutil.Assert(t, got == nil, "%q, with the groups of the image: got %v", user, got)
		sc.SupplementalGroupsPolicy = strictGroups
		got = containerUser(c)
		testutil.Assert(t, (got != nil) == known, "%q: got %v", user, got)
		// The process with this PID belongs to no container, so its identity does not count.
		c.Status.Running, c.Status.PID = true, os.Getpid()
		got = containerUser(c)
		testutil.Assert(t, (got != nil) == known, "%q, running: got %v", user, got)
	}
}

func TestUserOfAnExitedContainer(t *testing.T) {
	c := &state.Container{
		Status: state.ContainerStatus{Identity: &docker.Identity{UID: 1, GID: 2, Groups: []uint32{2, 3}}}}
	got := containerUser(c).GetLinux()
	testutil.Assert(t, got.GetUid() == 1 && got.GetGid() == 2 &&
		slices.Equal(got.GetSupplementalGroups(), []int64{2, 3}), "got %v", got)
}

func TestImageNameWithoutTheUsers(t *testing.T) {
	c := &state.Container{
		Meta: state.ContainerMeta{Config: &runtimeapi.ContainerConfig{Image: &runtimeapi.ImageSpec{Image: "busybox"}}}}
	testutil.Equal(t, imageOf(c).GetImage(), "busybox", "imageOf")
}

func TestPodSandboxStatus(t *testing.T) {
	n := nodeWithPod()
	n.cache.UpdatePod(podID, func(st *state.PodStatus) { st.IPs = []string{"10.0.0.2", "fd00::2", "fd01::2"} })
	before := time.Now()
	response, err := n.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: podID})
	testutil.Must(t, err)
	want := &runtimeapi.PodSandboxStatus{
		Id:        podID,
		Metadata:  &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u1"},
		State:     runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: 1e9 + 1,
		Network: &runtimeapi.PodSandboxNetworkStatus{
			Ip:            "10.0.0.2",
			AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::2"}, {Ip: "fd01::2"}},
		},
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
		Labels: map[string]string{"app": "web"},
	}
	testutil.Assert(t, proto.Equal(response.GetStatus(), want), "got  %v\nwant %v", response.GetStatus(), want)
	at := response.GetTimestamp()
	testutil.Assert(t, at >= before.UnixNano() && at <= time.Now().UnixNano(), "the timestamp is %d", at)
	list := response.GetContainersStatuses()
	testutil.Assert(t, len(list) == 1 && list[0].GetId() == containerID, "the containers are %v", list)
}

// slowCache returns each snapshot a second after it was taken.
type slowCache struct{ *cache }

func (c slowCache) Snapshot() *state.Snapshot {
	defer time.Sleep(time.Second)
	return c.cache.Snapshot()
}

// A change after the snapshot has a later time than the status, so that the kubelet does not drop the change as old.
func TestTimeOfAPodSandboxStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodeWithPod()
		n.opts.Cache = slowCache{n.cache}
		taken := time.Now()
		response, err := n.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: podID})
		testutil.Must(t, err)
		testutil.Assert(t, response.GetTimestamp() <= taken.UnixNano(), "the status is from %v, its snapshot from %v",
			time.Unix(0, response.GetTimestamp()), taken)
	})
}

func TestHostNetworkPodHasNoAddress(t *testing.T) {
	pod := &state.Pod{Meta: state.PodMeta{HostNetwork: true}, Status: state.PodStatus{IPs: []string{"10.0.0.2"}}}
	got := sandboxStatus(pod)
	testutil.Assert(t, got.GetNetwork().GetIp() == "", "the address is %q", got.GetNetwork().GetIp())
	testutil.Equal(t, got.GetLinux().GetNamespaces().GetOptions().GetNetwork(), runtimeapi.NamespaceMode_NODE,
		"the network mode")
}

// Converted messages share memory with the cache's entries and must not change them.
func TestStatusDoesNotChangeTheSnapshot(t *testing.T) {
	asked := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE,
		Pid: runtimeapi.NamespaceMode_CONTAINER}
	pod := &state.Pod{Meta: state.PodMeta{Config: &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{
		SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: asked},
	}}}}
	got := namespaceOptions(pod)
	testutil.Assert(t, got.GetNetwork() == runtimeapi.NamespaceMode_POD &&
		got.GetPid() == runtimeapi.NamespaceMode_CONTAINER, "got %v", got)
	testutil.Assert(t, asked.GetNetwork() == runtimeapi.NamespaceMode_NODE, "the pod's configuration was changed")
}

// verbose decodes the info of a verbose answer like crictl.
func verbose(t *testing.T, info map[string]string) map[string]any {
	t.Helper()
	decoded := map[string]any{}
	for key, text := range info {
		if !strings.HasPrefix(text, "{") {
			decoded[key] = text
			continue
		}
		var value map[string]any
		err := json.Unmarshal([]byte(text), &value)
		testutil.Require(t, err == nil, "%s: %v", key, err)
		decoded[key] = value
	}
	return decoded
}

// at returns the value at a path of keys, like jq.
func at(t *testing.T, value any, keys ...string) any {
	t.Helper()
	for _, key := range keys {
		object, ok := value.(map[string]any)
		testutil.Require(t, ok, "nothing at %s of %v", key, keys)
		value = object[key]
	}
	return value
}

func wantAt(t *testing.T, info map[string]any, want any, keys ...string) {
	t.Helper()
	testutil.Equal(t, at(t, info, keys...), want, "%v", keys)
}

// namespacePath is jq's .info.runtimeSpec.linux.namespaces[] | select(.type == kind) | .path
func namespacePath(t *testing.T, info map[string]any, kind string) (path string, found bool) {
	t.Helper()
	list, ok := at(t, info, "info", "runtimeSpec", "linux", "namespaces").([]any)
	testutil.Require(t, ok, "there are no namespaces")
	for _, element := range list {
		if at(t, element, "type") == kind {
			path, _ := at(t, element, "path").(string)
			return path, true
		}
	}
	return "", false
}

func TestVerbosePodSandboxStatus(t *testing.T) {
	n := nodeWithPod()
	n.cache.UpdatePod(podID, func(st *state.PodStatus) { st.NetnsPath = "/run/netns/cri-1" })
	response, err := n.PodSandboxStatus(t.Context(),
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: podID, Verbose: true})
	testutil.Must(t, err)
	info := verbose(t, response.GetInfo())
	wantAt(t, info, 4321.0, "info", "pid")
	wantAt(t, info, "running", "info", "processStatus")
	wantAt(t, info, false, "info", "netNamespaceClosed")
	wantAt(t, info, "runc", "info", "runtimeType")
	wantAt(t, info, "web", "info", "config", "metadata", "name")
	path, _ := namespacePath(t, info, "network")
	testutil.Assert(t, path == "/run/netns/cri-1", "the network namespace is %q", path)
	got := fmt.Sprint(
		at(t, info, "info", "cniResult", "Interfaces", "eth0", "IPConfigs"))
	testutil.Assert(t, got == "[map[IP:10.0.0.2]]", "the addresses are %s", got)
}

func TestVerboseContainerStatus(t *testing.T) {
	n := nodeWithPod()
	n.cache.UpdatePod(podID, func(st *state.PodStatus) { st.NetnsPath = "/run/netns/cri-1" })
	response, err := n.ContainerStatus(t.Context(),
		&runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: true})
	testutil.Must(t, err)
	info := verbose(t, response.GetInfo())
	wantAt(t, info, 1234.0, "info", "pid")
	wantAt(t, info, podID, "info", "sandboxID")
	wantAt(t, info, "runc", "info", "runtimeType")
	wantAt(t, info, "main", "info", "config", "metadata", "name")
	wantAt(t, info, "busybox:1.29", "info", "config", "image", "user_specified_image")
	path, _ := namespacePath(t, info, "network")
	testutil.Assert(t, path == "/run/netns/cri-1", "the network namespace is %q", path)
	path, _ = namespacePath(t, info, "ipc")
	testutil.Assert(t, path == "/proc/4321/ns/ipc", "the IPC namespace is %q", path)
}

func TestNamespacesOfContainers(t *testing.T) {
	held := &checkpoint.Namespaces{IPC: "/pins/ipc", UTS: "/pins/uts"}
	const own, node, joined, target = runtimeapi.NamespaceMode_CONTAINER, runtimeapi.NamespaceMode_NODE,
		runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_TARGET
	for name, test := range map[string]struct {
		pid, ipc, podIPC runtimeapi.NamespaceMode
		hostNetwork      bool
		status           state.PodStatus
		want             string
	}{
		"the pod's": {pid: joined, status: state.PodStatus{PID: 4321},
			want: "mount: pid:/proc/4321/ns/pid ipc:/proc/4321/ns/ipc uts: network:/proc/4321/ns/net"},
		"its own": {pid: own, ipc: own, status: state.PodStatus{PID: 4321},
			want: "mount: pid: ipc: uts: network:/proc/4321/ns/net"},
		"the node's":             {pid: node, ipc: node, hostNetwork: true, want: "mount:"},
		"a container's":          {pid: target, ipc: node, hostNetwork: true, want: "mount: pid:/proc/1234/ns/pid"},
		"the node's, by the pod": {pid: node, podIPC: node, hostNetwork: true, want: "mount:"},
		"held by the kernel": {pid: own, status: state.PodStatus{Namespaces: held, NetnsPath: "/pins/net",
			UserNamespace: "/pins/user"},
			want: "mount: pid: ipc:/pins/ipc uts:/pins/uts network:/pins/net user:/pins/user"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &state.Pod{Status: test.status, Meta: state.PodMeta{HostNetwork: test.hostNetwork,
				Config: &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{
					SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
						NamespaceOptions: &runtimeapi.NamespaceOption{Ipc: test.podIPC}}}}}}
			config := &runtimeapi.ContainerConfig{
				Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{Pid: test.pid, Ipc: test.ipc, TargetId: containerID},
				}}}
			var got []string
			for _, ns := range containerNamespaces(nodeWithPod().cache.Snapshot(), pod, config) {
				got = append(got, ns.Type+":"+ns.Path)
			}
			testutil.Equal(t, strings.Join(got, " "), test.want, "the namespaces")
		})
	}
}
