package state

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	stampZero     = "0001-01-01T00:00:00Z"
	stampCreated  = "2024-05-06T07:08:09.000000001Z"
	stampStarted  = "2024-05-06T07:08:10.123456789Z"
	stampFinished = "2024-05-06T07:09:00.5Z"
)

func stamp(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err) // a constant above
	}
	return t
}

func TestContainerStatusFromInspect(t *testing.T) {
	tests := map[string]struct {
		state container.State
		want  ContainerStatus
		is    runtimeapi.ContainerState
	}{
		"created": {
			container.State{Status: container.StateCreated, StartedAt: stampZero, FinishedAt: stampZero},
			ContainerStatus{}, created,
		},
		"running": {
			container.State{Status: container.StateRunning, Running: true, Pid: 42, StartedAt: stampStarted,
				FinishedAt: stampZero},
			ContainerStatus{Running: true, PID: 42, StartedAt: stamp(stampStarted)}, running,
		},
		"paused": {
			container.State{Status: container.StatePaused, Running: true, Paused: true, Pid: 42,
				StartedAt: stampStarted, FinishedAt: stampZero},
			ContainerStatus{Running: true, Paused: true, PID: 42, StartedAt: stamp(stampStarted)}, running,
		},
		"restarting by a policy of another shim": {
			container.State{Status: container.StateRestarting, Restarting: true, StartedAt: stampStarted,
				FinishedAt: stampFinished, ExitCode: 1},
			ContainerStatus{Running: true, StartedAt: stamp(stampStarted)}, running,
		},
		"running again: the last exit is history": {
			container.State{Status: container.StateRunning, Running: true, Pid: 43, StartedAt: stampStarted,
				FinishedAt: "2024-05-06T07:08:10Z", ExitCode: 9, OOMKilled: true, Error: "x"},
			ContainerStatus{Running: true, PID: 43, StartedAt: stamp(stampStarted)}, running,
		},
		"exited": {
			container.State{Status: container.StateExited, StartedAt: stampStarted, FinishedAt: stampFinished,
				ExitCode: 3},
			ContainerStatus{StartedAt: stamp(stampStarted), FinishedAt: stamp(stampFinished), ExitCode: 3}, exited,
		},
		"killed for its memory": {
			container.State{Status: container.StateExited, StartedAt: stampStarted, FinishedAt: stampFinished,
				ExitCode: 137, OOMKilled: true},
			ContainerStatus{StartedAt: stamp(stampStarted), FinishedAt: stamp(stampFinished), ExitCode: 137,
				OOMKilled: true}, exited,
		},
		"failed start: the engine keeps it created and has no times": {
			container.State{Status: container.StateCreated, StartedAt: stampZero, FinishedAt: stampZero, ExitCode: 127,
				Error: "no such command"},
			ContainerStatus{StartedAt: stamp(stampCreated), FinishedAt: stamp(stampCreated), ExitCode: 127,
				Error: "no such command"}, exited,
		},
		"a start that was cancelled as criadapter was killed": {
			container.State{Status: container.StateCreated, StartedAt: stampZero, FinishedAt: stampZero, ExitCode: 128,
				Error: "context canceled"},
			ContainerStatus{}, created,
		},
		"half removed before its start": {
			container.State{Status: container.StateDead, Dead: true, StartedAt: stampZero, FinishedAt: stampZero},
			ContainerStatus{}, created,
		},
		"half removed, without an end": {
			container.State{Status: container.StateDead, Dead: true, StartedAt: stampStarted, FinishedAt: stampZero},
			ContainerStatus{Unknown: true, StartedAt: stamp(stampStarted)},
			runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		},
		"half removed after it ran": {
			container.State{Status: container.StateDead, Dead: true, StartedAt: stampStarted,
				FinishedAt: stampFinished, Error: "unable to remove filesystem: device or resource busy"},
			ContainerStatus{StartedAt: stamp(stampStarted), FinishedAt: stamp(stampFinished)}, exited,
		},
		"garbage instead of times": {
			container.State{Status: container.StateExited, StartedAt: "yesterday", FinishedAt: ""},
			ContainerStatus{}, created,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := containerStatus(&container.InspectResponse{Created: stampCreated, State: &tt.state})
			testutil.Assert(t, reflect.DeepEqual(got, tt.want), "the status is %+v, want %+v", got, tt.want)
			testutil.Assert(t, got.State() == tt.is, "the state is %v, want %v", got.State(), tt.is)
		})
	}
}

// theirPod is a pod of cri-dockerd on Docker's own bridge.
func theirPod(labels map[string]string) *container.InspectResponse {
	all := map[string]string{
		"io.kubernetes.docker.type":    "podsandbox",
		"io.kubernetes.container.name": "POD",
		"io.kubernetes.pod.name":       "web",
		"app":                          "web",
		"annotation.note":              "hello",
	}
	maps.Copy(all, labels)
	return &container.InspectResponse{
		ID: "their-pod", Name: "/k8s_POD_web_default_uid-1_2", Image: "sha256:pause", Created: stampCreated,
		Config:     &container.Config{Labels: all},
		HostConfig: &container.HostConfig{NetworkMode: "default", Runtime: "nvidia"},
		State: &container.State{Status: container.StateRunning, Running: true, Pid: 7, StartedAt: stampStarted,
			FinishedAt: stampZero},
		NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{
			"bridge": {IPAddress: netip.MustParseAddr("172.17.0.5")},
		}},
	}
}

func TestPodOfAnotherShim(t *testing.T) {
	m := New(Options{Records: &records{}})
	pod, ok := m.fromInspect(t.Context(), theirPod(nil)).(*Pod)
	testutil.Require(t, ok, "not taken for a pod")
	want := &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid-1", Attempt: 2},
		Labels:      map[string]string{"app": "web", "io.kubernetes.pod.name": "web"},
		Annotations: map[string]string{"note": "hello"},
	}
	testutil.Assert(t, proto.Equal(pod.Meta.Config, want), "the configuration is %v, want %v", pod.Meta.Config, want)
	testutil.Assert(t, pod.Status.State() == podReady && slices.Equal(pod.Status.IPs, []string{"172.17.0.5"}) &&
		pod.Status.PID == 7, "the status is %+v", pod.Status)
	testutil.Assert(t, pod.Meta.RuntimeHandler == "nvidia", "the runtime handler is %q", pod.Meta.RuntimeHandler)
	testutil.Assert(t, !pod.Meta.HostNetwork && pod.Meta.ImageID == "sha256:pause" &&
		pod.Meta.CreatedAt.Equal(stamp(stampCreated)), "the rest is %+v", pod.Meta)
}

// A pod of another shim whose sandbox was restarted is NOTREADY, because its containers stay in the first network
// namespace. A pod of the host network stays READY.
func TestRestartedPodOfAnotherShim(t *testing.T) {
	m := New(Options{Records: &records{}})
	for network, want := range map[container.NetworkMode]runtimeapi.PodSandboxState{
		"default": podNotReady, "none": podNotReady, "host": podReady,
	} {
		inspect := theirPod(nil)
		inspect.HostConfig.NetworkMode, inspect.State.FinishedAt = network, stampFinished
		pod, ok := m.fromInspect(t.Context(), inspect).(*Pod)
		testutil.Require(t, ok, "not taken for a pod")
		testutil.Equal(t, pod.Status.State(), want, "a restarted pod with the network %s is", network)
	}
}

// A user's restart policy lets the engine start a sandbox again, after a pause.
func TestPodThatWaitsForItsRestart(t *testing.T) {
	m := New(Options{Records: &records{}})
	inspect := theirPod(nil)
	inspect.HostConfig.NetworkMode = "host"
	inspect.State.Status, inspect.State.Restarting, inspect.State.Pid = container.StateRestarting, true, 0
	inspect.State.FinishedAt = stampFinished
	pod, ok := m.fromInspect(t.Context(), inspect).(*Pod)
	testutil.Require(t, ok, "not taken for a pod")
	testutil.Assert(t, pod.Status.State() == podNotReady && pod.Ended(), "the status is %+v", pod.Status)
	m.PutPod(*pod)
	listed := container.Summary{ID: pod.ID, State: container.StateRestarting}
	testutil.Assert(t, m.agrees(listed), "each relist inspects the pod again")
}

func TestContainerOfAnotherShim(t *testing.T) {
	m := New(Options{Records: &records{}})
	inspect := &container.InspectResponse{
		ID: "their-container", Name: "/k8s_app_web_default_uid-1_0", Image: "sha256:app", Created: stampCreated,
		LogPath: "/docker/x-json.log",
		Config: &container.Config{Image: "app:1", User: "33", Labels: map[string]string{
			"io.kubernetes.docker.type":       "container",
			"io.kubernetes.sandbox.id":        "their-pod",
			"io.kubernetes.container.name":    "app",
			"io.kubernetes.container.logpath": "/var/log/pods/web/app/0.log",
			"annotation.hash":                 "1",
		}},
		HostConfig: &container.HostConfig{OomScoreAdj: 5, Resources: container.Resources{
			CPUShares: 1, CPUPeriod: 2, CPUQuota: 3, Memory: 4, MemorySwap: 6, CpusetCpus: "0", CpusetMems: "1",
		}},
		State: &container.State{Status: container.StateRunning, Running: true, StartedAt: stampStarted,
			FinishedAt: stampZero},
	}
	c, ok := m.fromInspect(t.Context(), inspect).(*Container)
	testutil.Require(t, ok, "not taken for a container")
	want := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: "app"},
		Image:       &runtimeapi.ImageSpec{Image: "app:1"},
		Labels:      map[string]string{"io.kubernetes.container.name": "app"},
		Annotations: map[string]string{"hash": "1"},
	}
	testutil.Assert(t, proto.Equal(c.Meta.Config, want), "the configuration is %v, want %v", c.Meta.Config, want)
	testutil.Assert(t, c.SandboxID == "their-pod" && c.Meta.LogPath == "/var/log/pods/web/app/0.log" &&
		c.Meta.EngineLogPath == "/docker/x-json.log" && c.Meta.User == "33" && c.Meta.StopSignal == "SIGTERM" &&
		c.Meta.ImageID == "sha256:app" && c.Meta.ImageRef == "sha256:app", "the container is %+v", c)
	limits := &runtimeapi.LinuxContainerResources{
		CpuShares: 1, CpuPeriod: 2, CpuQuota: 3, MemoryLimitInBytes: 4, MemorySwapLimitInBytes: 6, OomScoreAdj: 5,
		CpusetCpus: "0", CpusetMems: "1",
	}
	testutil.Assert(t, proto.Equal(c.Status.Resources.Linux, limits),
		"the resources are %v, want %v", c.Status.Resources.Linux, limits)
}

func TestForeignContainersAreLeftOut(t *testing.T) {
	m := New(Options{Records: &records{}})
	tests := map[string]*container.InspectResponse{
		"no configuration": {ID: "x", State: &container.State{}},
		"no state":         {ID: "x", Config: &container.Config{}},
		"an image's labels under an ordinary name": func() *container.InspectResponse {
			inspect := theirPod(nil)
			inspect.Name = "/web"
			return inspect
		}(),
		"a pod's name without labels": func() *container.InspectResponse {
			inspect := theirPod(nil)
			inspect.Config.Labels = nil
			return inspect
		}(),
		"a container whose record names a label that it lacks": func() *container.InspectResponse {
			inspect := theirPod(map[string]string{
				translate.LabelKind:      translate.LabelKindContainer,
				translate.LabelSandboxID: "their-pod",
				translate.LabelRecord:    `{"name": "k8s_app_web_default_uid-1_2", "labels": ["gone"]}`,
			})
			inspect.Name = "/k8s_app_web_default_uid-1_2"
			return inspect
		}(),
	}
	for name, inspect := range tests {
		t.Run(name, func(t *testing.T) {
			entry := m.fromInspect(t.Context(), inspect)
			testutil.Assert(t, entry == nil, "taken for %#v", entry)
		})
	}
}

// Renamed containers do not count as running for ever.
func TestRenamedContainersEnd(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		n.engine.onInspect(func(answer *container.InspectResponse) { answer.Name = "/renamed" })
		for _, ended := range []string{id, podID} {
			n.must(n.engine.StopContainer(n.Context(), ended, 0))
		}
		caughtUp()
		n.wantContainer(id, exited)
		n.wantPod(podID, podNotReady)
	})
}

// A pod of ours is read from its checkpoint, and from its labels without one.
func TestPodOfOurs(t *testing.T) {
	host := podConfig("web")
	host.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	fromLabels := podConfig("web")
	fromLabels.LogDirectory, fromLabels.DnsConfig = "", nil
	tests := map[string]struct {
		config *runtimeapi.PodSandboxConfig
		record func(*checkpoint.Record) // nil for no record
		want   *runtimeapi.PodSandboxConfig
		state  runtimeapi.PodSandboxState
	}{
		"ready": {podConfig("web"), func(*checkpoint.Record) {}, podConfig("web"), podReady},
		"cut short": {podConfig("web"), func(r *checkpoint.Record) {
			r.Phase, r.Network = checkpoint.PhaseIntent, nil
		}, podConfig("web"), podNotReady},
		"stopped": {podConfig("web"), func(r *checkpoint.Record) {
			r.Phase = checkpoint.PhaseStopped
		}, podConfig("web"), podNotReady},
		"no record":  {podConfig("web"), nil, fromLabels, podNotReady},
		"no config":  {podConfig("web"), func(r *checkpoint.Record) { r.Config = nil }, fromLabels, podReady},
		"bad config": {podConfig("web"), func(r *checkpoint.Record) { r.Config = []byte(`[]`) }, fromLabels, podReady},
		"newer config": {podConfig("web"), func(r *checkpoint.Record) {
			r.Config = append([]byte(`{"ofTheFuture": 1, `), r.Config[1:]...)
		}, podConfig("web"), podReady},
		"host network": {host, func(r *checkpoint.Record) { r.NetnsPath, r.Network = "", nil }, host, podReady},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, dockertest.Options{})
			defer n.engine.Close()
			spec, err := translate.Sandbox(
				translate.SandboxInput{Config: tt.config, Image: testImage,
					Features: dockertest.DefaultFeatures(dockertest.Docker20)})
			n.must(err)
			id, err := n.engine.CreateContainer(t.Context(), spec)
			n.must(err)
			n.start(id)
			if tt.record != nil {
				record := readyRecord(id, "web")
				record.Config, err = protojson.Marshal(tt.config)
				n.must(err)
				tt.record(&record)
				n.records.save(record)
			}
			_, err = n.cache.RefreshPod(t.Context(), id)
			n.must(err)
			pod := n.pod(id)
			testutil.Assert(t, proto.Equal(pod.Meta.Config, tt.want),
				"the configuration is %v, want %v", pod.Meta.Config, tt.want)
			testutil.Equal(t, pod.Status.State(), tt.state, "the pod")
			testutil.Assert(t, pod.Meta.HostNetwork == (tt.config.Linux != nil),
				"HostNetwork is %v", pod.Meta.HostNetwork)
		})
	}
}

// An image can have any label. The container's name decides.
func TestImageLabelsMakeNoPodOfOurs(t *testing.T) {
	image := dockertest.Image{Names: []string{"evil"}, Labels: map[string]string{
		translate.LabelKind: translate.LabelKindSandbox, translate.LabelContainerName: "POD", "app": "evil",
	}}
	onNode(t, dockertest.Options{Images: []dockertest.Image{image}}, func(n *node) {
		n.sync()
		id, err := n.engine.CreateContainer(n.Context(),
			docker.ContainerSpec{Name: "ordinary", Config: &container.Config{Image: "evil"}})
		n.must(err)
		n.start(id)
		settle()
		n.wantUnknown(id)
	})
}

func TestContainerOfOursIsWhatItsCheckpointSays(t *testing.T) {
	n := newNode(t, dockertest.Options{})
	defer n.engine.Close()
	podID := n.startPod("web")
	id := n.createContainer(podID, "web", "app")
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: testImage, UserSpecifiedImage: "test"},
		Command:  []string{"sleep"},
		Linux:    &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{CpuShares: 99}},
	}
	raw, err := protojson.Marshal(config)
	n.must(err)
	record := readyRecord(podID, "web")
	record.Containers = map[string]checkpoint.Container{id: {Config: raw}}
	n.records.save(record)
	c, err := n.cache.RefreshContainer(t.Context(), id)
	n.must(err)
	testutil.Assert(t, proto.Equal(c.Meta.Config, config), "the configuration is %v, want %v", c.Meta.Config, config)
	got := c.Status.Resources.GetLinux().GetCpuShares()
	testutil.Assert(t, got == 99, "%d CPU shares in force, want the requested 99", got)
	testutil.Assert(t, c.SandboxID == podID && c.Meta.LogPath == "/var/log/pods/web/app/0.log",
		"the container is %+v", c)
}

func TestFailedStartIsAnExit(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		n.engine.Behave(dockertest.Program{Start: errNoSuchCommand})
		id := n.createContainer(podID, "web", "app")
		n.sync()
		testutil.Require(n, n.engine.StartContainer(n.Context(), id) != nil, "the start succeeded")
		c, err := n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		testutil.Assert(n, c.Status.State() == exited && c.Status.ExitCode == 127 &&
			c.Status.Error == errNoSuchCommand.Error(), "the container is %v: %+v", c.Status.State(), c.Status)
		// It stays exited, even after a restart of the program.
		n.restart()
		n.wantContainer(id, exited)
		time.Sleep(20 * time.Minute)
		n.wantContainer(id, exited)
	})
}
