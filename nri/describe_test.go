package nri

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// oneContainer is an engine with one container.
type oneContainer struct {
	Engine
	inspect  container.InspectResponse
	adjusted *ocinote.Adjustment
}

func (e *oneContainer) InspectContainer(context.Context, string) (*container.InspectResponse, error) {
	return &e.inspect, nil
}

func (e *oneContainer) Adjustment(context.Context, string) (*ocinote.Adjustment, error) {
	return e.adjusted, nil
}

func TestDescribe(t *testing.T) {
	engine := &oneContainer{adjusted: &ocinote.Adjustment{
		RemoveMounts: []string{"/removed"}, RemoveDevices: []string{"/dev/removed"},
		Mounts:  []ocinote.Mount{{Destination: "/p", Type: "tmpfs"}},
		Devices: []ocinote.Device{{Path: "/dev/p", Type: "c", Major: 1, Minor: 2}},
		Config: []json.RawMessage{
			json.RawMessage(`{"annotations":{"a":"1","b":null}}`), json.RawMessage(`{"linux":{"x":1}}`),
			json.RawMessage(`{"linux":{"sysctl":{"s":null,"t":"2"}}}`)},
		Namespaces: map[string]string{"ipc": "/ipc"}, RemoveNamespaces: []string{"cgroup"},
		Process: ocinote.ProcessAdjustment{Env: []string{"B=2"},
			Rlimits: []ocinote.Rlimit{{Type: "RLIMIT_CORE", Hard: 1}, {Type: "RLIMIT_CPU", Hard: 2}}},
	}}
	engine.inspect = container.InspectResponse{
		Path: "sh", Args: []string{"-c", "x"},
		Config: &container.Config{Env: []string{"A=1", "B=1"}, User: "7:8"},
		HostConfig: &container.HostConfig{Sysctls: map[string]string{"s": "1", "u": "3"},
			Resources: container.Resources{CgroupParent: "/kube", PidsLimit: new(int64(9)),
				Ulimits: []*container.Ulimit{{Name: "nofile", Hard: 4, Soft: 3}, {Name: "core"}},
				Devices: []container.DeviceMapping{{PathInContainer: "/dev/x"}, {PathInContainer: "/dev/removed"}}}},
		Mounts: []container.MountPoint{
			{Type: mount.TypeBind, Source: "/s", Destination: "/d", Propagation: "rslave"},
			{Type: mount.TypeBind, Source: "/s", Destination: "/p"},
			{Type: mount.TypeBind, Source: "/s", Destination: "/removed"}},
	}
	c := &state.Container{ID: "id", SandboxID: "pod", Meta: state.ContainerMeta{
		ImageID: "sha256:1", ImageRef: "x@sha256:2", CreatedAt: time.Unix(0, 5),
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"b": "2"},
			CDIDevices: []*runtimeapi.CDIDevice{{Name: "a/b=c"}},
			Image:      &runtimeapi.ImageSpec{UserSpecifiedImage: "x"},
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources: &runtimeapi.LinuxContainerResources{CpuShares: 6, OomScoreAdj: 4},
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{Seccomp: &runtimeapi.SecurityProfile{
					ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "p"}}}}}}
	got, err := (&Service{opts: Options{Engine: engine, Cache: state.New(state.Options{})}}).describe(t.Context(), c)
	testutil.Must(t, err)
	want := &api.Container{}
	testutil.Must(t, protojson.Unmarshal([]byte(`{
		"id": "id", "podSandboxId": "pod", "name": "main", "state": "CONTAINER_CREATED", "labels": {"l": "1"},
		"annotations": {"a": "1"}, "args": ["sh", "-c", "x"], "env": ["A=1", "B=2"], "createdAt": "5",
		"mounts": [{"destination": "/d", "type": "bind", "source": "/s", "options": ["rbind", "ro", "rslave"]},
			{"destination": "/p", "type": "tmpfs"}],
		"rlimits": [{"type": "RLIMIT_NOFILE", "hard": "4", "soft": "3"}, {"type": "RLIMIT_CORE", "hard": "1"},
			{"type": "RLIMIT_CPU", "hard": "2"}],
		"CDIDevices": [{"name": "a/b=c"}], "user": {"uid": 7, "gid": 8},
		"image": {"name": "x", "digest": "sha256:2", "configDigest": "sha256:1"},
		"linux": {
			"devices": [{"path": "/dev/x"}, {"path": "/dev/p", "type": "c", "major": "1", "minor": "2"}],
			"resources": {"memory": {}, "cpu": {"shares": {"value": "6"}}, "pids": {"limit": "9"}},
			"oomScoreAdj": {"value": "4"}, "sysctl": {"t": "2", "u": "3"}, "cgroupsPath": "/kube/id",
			"namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "ipc", "path": "/ipc"}],
			"seccompProfile": {"profileType": "LOCALHOST", "localhostRef": "p"}}}`), want))
	testutil.Assert(t, proto.Equal(got, want), "got  %v\nwant %v", got, want)
}

// TestDescribeDevices: a plugin that aligns CPUs with a device looks the device up by its numbers.
func TestDescribeDevices(t *testing.T) {
	got := &api.Container{Linux: &api.LinuxContainer{Resources: &api.LinuxResources{}}}
	describeHost(got, &container.HostConfig{Resources: container.Resources{Devices: []container.DeviceMapping{
		{PathOnHost: "/dev/zero", PathInContainer: "/dev/x", CgroupPermissions: "rw"},
		{PathOnHost: "/dev", PathInContainer: "/dev/directory", CgroupPermissions: "r"},
		{PathOnHost: "/dev/missing", PathInContainer: "/dev/missing", CgroupPermissions: "r"}}}})
	devices, rules := got.GetLinux().GetDevices(), got.GetLinux().GetResources().GetDevices()
	testutil.Require(t, len(devices) == 3 && len(rules) == 1, "got the devices %v, and the rules %v", devices, rules)
	testutil.Assert(t, devices[0].GetPath() == "/dev/x" && devices[0].GetType() == "c" && devices[0].GetMajor() == 1 &&
		devices[0].GetMinor() == 5 && devices[0].GetFileMode() != nil && devices[0].GetUid() != nil &&
		devices[0].GetGid() != nil, "got %v", devices[0])
	testutil.Assert(t, rules[0].GetAllow() && rules[0].GetType() == "c" && rules[0].GetMajor().GetValue() == 1 &&
		rules[0].GetMinor().GetValue() == 5 && rules[0].GetAccess() == "rw", "got the rule %v", rules[0])
	for _, device := range devices[1:] {
		testutil.Assert(t, strings.HasPrefix(device.GetPath(), "/dev/") && device.GetType() == "", "got %v", device)
	}
}

// TestDescriptionIsACopy: the NRI library writes into the maps of a description.
func TestDescriptionIsACopy(t *testing.T) {
	config := &runtimeapi.ContainerConfig{Annotations: map[string]string{"a": "1"},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.high": "1"}}}}
	before := proto.Clone(config)
	described := describeState(&state.Container{Meta: state.ContainerMeta{Config: config}})
	described.Annotations["a"], described.Linux.Resources.Unified["memory.high"] = "2", "2"
	testutil.Assert(t, proto.Equal(config, before), "the request became %v", config)
}

func TestDescribePod(t *testing.T) {
	pod := &state.Pod{ID: "id", Meta: state.PodMeta{RuntimeHandler: "h", Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "n", Namespace: "ns", Uid: "u"},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/c"}}},
		Status: state.PodStatus{PID: 3, IPs: []string{"10.0.0.1"}, NetnsPath: "/net", UserNamespace: "/user",
			Namespaces: &checkpoint.Namespaces{IPC: "/ipc", UTS: "/uts"},
			Resources:  &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 4}}}
	got := describePod(pod)
	var namespaces []string
	for _, n := range got.GetLinux().GetNamespaces() {
		namespaces = append(namespaces, n.GetType()+n.GetPath())
	}
	testutil.Equal(t, strings.Join(namespaces, " "), "network/net user/user ipc/ipc uts/uts", "namespaces")
	testutil.Assert(t, got.GetUid() == "u" && got.GetNamespace() == "ns" && got.GetPid() == 3 &&
		got.GetLinux().GetPodResources().GetMemory().GetLimit().GetValue() == 4 && got.GetRuntimeHandler() == "h",
		"got %v", got)
	testutil.Assert(t, describePod(nil) != nil, "a missing pod is described as nil")
}

func TestNumericUser(t *testing.T) {
	for text, want := range map[string]string{"": "", "7": "uid:7", "7:8": "uid:7 gid:8", "web": "", "7:web": ""} {
		got := ""
		if user := numericUser(text); user != nil {
			got = strings.Join(strings.Fields(user.String()), " ")
		}
		testutil.Equal(t, got, want, "%q", text)
	}
}
