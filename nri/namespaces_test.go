package nri

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// Plugins see the namespaces that containerd would show them, with paths for shared ones.
func TestDescribeNamespaces(t *testing.T) {
	const pod = "container:pod"
	running := state.PodStatus{PID: 7, NetnsPath: "/run/netns/n"}
	held := state.PodStatus{NetnsPath: "/run/netns/n", UserNamespace: "/run/user",
		Namespaces: &checkpoint.Namespaces{IPC: "/run/ipc", UTS: "/run/uts"}}
	for name, c := range map[string]struct {
		pod  *state.Pod
		host container.HostConfig
		want string
	}{
		"of a pod with a sandbox container": {&state.Pod{ID: "pod", Status: running},
			container.HostConfig{NetworkMode: pod, IpcMode: pod, CgroupnsMode: container.CgroupnsModePrivate},
			"mount pid cgroup ipc=/proc/7/ns/ipc uts network=/run/netns/n"},
		"with the pod's processes": {&state.Pod{ID: "pod", Status: running},
			container.HostConfig{NetworkMode: pod, IpcMode: container.IPCModePrivate, PidMode: pod},
			"mount pid=/proc/7/ns/pid ipc uts network=/run/netns/n"},
		"of an ended sandbox": {&state.Pod{ID: "pod"},
			container.HostConfig{NetworkMode: pod, IpcMode: pod}, "mount pid uts"},
		"of a pod without a sandbox container": {&state.Pod{ID: "pod", Status: held},
			container.HostConfig{NetworkMode: "none", IpcMode: container.IPCModeNone},
			"mount pid ipc=/run/ipc uts=/run/uts network=/run/netns/n user=/run/user"},
		"of such a pod with an IPC namespace of its own": {&state.Pod{ID: "pod", Status: held},
			container.HostConfig{NetworkMode: "none", IpcMode: container.IPCModePrivate},
			"mount pid ipc uts=/run/uts network=/run/netns/n user=/run/user"},
		"of the node": {
			&state.Pod{ID: "pod", Meta: state.PodMeta{HostNetwork: true}, Status: state.PodStatus{PID: 7}},
			container.HostConfig{NetworkMode: pod, IpcMode: "host", PidMode: "host", UTSMode: "host"}, "mount"},
		"on Docker's bridge": {&state.Pod{ID: "pod", Status: state.PodStatus{PID: 7}},
			container.HostConfig{NetworkMode: pod, IpcMode: "host"}, "mount pid uts network=/proc/7/ns/net"},
		"of an unknown pod": {nil, container.HostConfig{NetworkMode: pod, IpcMode: "host"}, "mount pid"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := state.New(state.Options{})
			if c.pod != nil {
				cache.PutPod(*c.pod)
			}
			var got []string
			for _, n := range describeNamespaces(cache.Snapshot(), c.pod, &c.host) {
				text := n.GetType()
				if n.GetPath() != "" {
					text += "=" + n.GetPath()
				}
				got = append(got, text)
			}
			testutil.Equal(t, strings.Join(got, " "), c.want, "namespaces")
		})
	}
}

func TestCgroupsPath(t *testing.T) {
	for parent, want := range map[string]string{
		"": "", "/kubepods/burstable/pod1": "/kubepods/burstable/pod1/id",
		"kubepods-pod1.slice": "kubepods-pod1.slice:docker:id", "/a.slice": "/a.slice/id",
	} {
		testutil.Equal(t, cgroupsPath("id", parent), want, "%q", parent)
	}
	described := &api.Container{Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/id"}}
	showAdjusted(described, &ocinote.Adjustment{Config: []json.RawMessage{
		json.RawMessage(`{"linux":{"cgroupsPath":"/adjusted"}}`)}})
	testutil.Equal(t, described.GetLinux().GetCgroupsPath(), "/adjusted", "an adjusted path")
}
