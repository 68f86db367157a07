package translate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// node is a real engine with the images that the tests run.
type node struct {
	*testing.T
	engine   *docker.Client
	features docker.Features
	env      rigenv.Env
}

const testTimeout = testutil.Patience

// newNode connects to the engine at host and pulls the images named.
func newNode(t *testing.T, env rigenv.Env, host string, images ...string) *node {
	t.Helper()
	client, err := docker.Dial(docker.Options{Host: host})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	n := &node{T: t, engine: client, env: env}
	ctx := n.context()
	n.features, err = client.Features(ctx)
	testutil.Must(t, err)
	t.Logf("Docker Engine %s, API %s, cgroup v%d", n.features.ServerVersion, n.features.APIVersion,
		n.features.CgroupVersion)
	for _, image := range images {
		testutil.Must(t, client.PullImage(ctx, env.Image(image), docker.PullOptions{}))
	}
	return n
}

// evilNode is an engine whose daemon.json has every setting that could leak into pods.
func evilNode(t *testing.T, images ...string) *node {
	t.Helper()
	env := rigenv.Require(t)
	e := engine.ForTest(t, engine.Options{Env: env, Config: map[string]any{
		"init":                  true,
		"no-new-privileges":     true,
		"default-shm-size":      "8M",
		"default-ipc-mode":      "private",
		"default-cgroupns-mode": "private",
		"cgroup-parent":         "/evil",
		"default-ulimits": map[string]any{
			"nofile":  map[string]any{"Name": "nofile", "Soft": 256, "Hard": 512},
			"memlock": map[string]any{"Name": "memlock", "Soft": 65536, "Hard": 65536},
			"as":      map[string]any{"Name": "as", "Soft": 16 << 30, "Hard": 16 << 30},
		},
		"log-driver": "local",
		"log-opts":   map[string]string{"max-size": "1k", "max-file": "2", "compress": "true", "mode": "non-blocking"},
	}})
	return newNode(t, env, e.Host(), images...)
}

func (n *node) context() context.Context {
	ctx, cancel := context.WithTimeout(n.Context(), testTimeout)
	n.Cleanup(cancel)
	return ctx
}

// create creates a container and removes it with the test.
func (n *node) create(spec docker.ContainerSpec) string {
	n.Helper()
	id, err := n.engine.CreateContainer(n.context(), spec)
	testutil.Must(n, err)
	n.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.T.Context()), testTimeout)
		defer cancel()
		testutil.Check(n, n.engine.RemoveContainer(ctx, id))
	})
	return id
}

// start creates and starts a container, and returns the engine's inspect of it.
func (n *node) start(spec docker.ContainerSpec) *container.InspectResponse {
	n.Helper()
	id := n.create(spec)
	testutil.Must(n, n.engine.StartContainer(n.context(), id))
	inspect := n.inspect(id)
	testutil.Require(n, inspect.State.Running, "%s does not run: %+v", spec.Name, inspect.State)
	return inspect
}

func (n *node) inspect(id string) *container.InspectResponse {
	n.Helper()
	inspect, err := n.engine.InspectContainer(n.context(), id)
	testutil.Must(n, err)
	return inspect
}

// pod is a pod's configuration with a name of its own.
func (n *node) pod() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: "translate", Namespace: "test", Uid: fmt.Sprintf("%x", time.Now().UnixNano()),
		},
		LogDirectory: "/var/log/pods/test",
		Labels:       map[string]string{"app": "test", translate.LabelKind: "mine"},
		Annotations:  map[string]string{"a": "b"},
		Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{}},
	}
}

func (n *node) app() *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Labels:   map[string]string{"io.kubernetes.container.name": "app"},
		LogPath:  "app/0.log",
		Linux:    &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{}},
	}
}

func (n *node) sandboxSpec(image string, pod *runtimeapi.PodSandboxConfig, f docker.Features) docker.ContainerSpec {
	n.Helper()
	spec, err := translate.Sandbox(translate.SandboxInput{Config: pod, Image: n.env.Image(image), Features: f})
	testutil.Must(n, err)
	return spec
}

func (n *node) containerSpec(
	image, sandboxID string, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig,
) docker.ContainerSpec {
	n.Helper()
	spec, err := translate.Container(translate.ContainerInput{
		Config: app, Sandbox: translate.SandboxRef{ID: sandboxID, Config: pod}, ImageID: n.env.Image(image),
		Features: n.features, ReadProfile: os.ReadFile,
	})
	testutil.Must(n, err)
	return spec
}

const evilImage = "test/evil:latest"

func TestNothingLeaksIntoAPod(t *testing.T) {
	n := evilNode(t, evilImage)
	pod, app := n.pod(), n.app()
	sandboxSpec := n.sandboxSpec(evilImage, pod, n.features)
	sandbox := n.start(sandboxSpec)
	appSpec := n.containerSpec(evilImage, sandbox.ID, pod, app)
	running := n.start(appSpec)

	for _, c := range []struct {
		inspect *container.InspectResponse
		spec    docker.ContainerSpec
		kind    translate.Kind
	}{{sandbox, sandboxSpec, translate.KindSandbox}, {running, appSpec, translate.KindContainer}} {
		t.Run(fmt.Sprint("kind ", c.kind), func(t *testing.T) {
			testutil.Equal(t, translate.Identify(c.inspect.Name, c.inspect.Config.Labels), c.kind, "identified as")
			checkHost(t, c.inspect, c.spec.Host)
			checkProcess(t, c.inspect)
		})
	}
	testutil.Assert(t, running.Config.User == "mallory" && running.Config.StopSignal == "SIGUSR1" &&
		slices.Contains(running.Config.Env, "EVIL=from-image"),
		"user, stop signal and environment must be the image's, got %+v", running.Config)
	testutil.Assert(t, sandbox.Config.StopSignal == "SIGKILL", "the sandbox stops on %s", sandbox.Config.StopSignal)
	checkMetadata(t, sandbox, pod, running, app)
}

// checkHost compares the engine's configuration of the container with the requested one.
func checkHost(t *testing.T, inspect *container.InspectResponse, want *container.HostConfig) {
	t.Helper()
	got := inspect.HostConfig
	testutil.Assert(t, got.Init != nil && !*got.Init, "init is %v", got.Init)
	for what, values := range map[string][2]any{
		"IPC mode":         {got.IpcMode, want.IpcMode},
		"cgroup namespace": {got.CgroupnsMode, want.CgroupnsMode},
		"cgroup parent":    {got.CgroupParent, want.CgroupParent},
		"shared memory":    {got.ShmSize, want.ShmSize},
		"runtime":          {got.Runtime, want.Runtime},
		"log driver":       {got.LogConfig.Type, want.LogConfig.Type},
		"log options":      {fmt.Sprint(got.LogConfig.Config), fmt.Sprint(want.LogConfig.Config)},
		"network":          {got.NetworkMode, want.NetworkMode},
		"restart policy":   {got.RestartPolicy.Name, want.RestartPolicy.Name},
		"user namespace":   {got.UsernsMode, want.UsernsMode},
	} {
		testutil.Assert(t, values[0] == values[1], "%s is %v, want %v", what, values[0], values[1])
	}
	testutil.Assert(t, inspect.State.Health == nil || inspect.State.Health.Status == container.NoHealthcheck,
		"the image's health check runs: %+v", inspect.State.Health)
}

// checkProcess looks at the process itself, because the engine's report of a setting does not prove its effect.
func checkProcess(t *testing.T, inspect *container.InspectResponse) {
	t.Helper()
	pid := inspect.State.Pid
	testutil.Assert(t, readProc(t, pid, "comm") != "docker-init", "the first process is the engine's init")
	want := "0"
	if slices.Contains(inspect.HostConfig.SecurityOpt, "no-new-privileges=true") {
		want = "1"
	}
	testutil.Equal(t, statusField(t, pid, "NoNewPrivs"), want, "NoNewPrivs")
	groups := readProc(t, pid, "cgroup")
	testutil.Assert(t, !strings.Contains(groups, "evil"), "the process is in the cgroups\n%s", groups)
	self := namespace(t, os.Getpid(), "cgroup")
	isHost := namespace(t, pid, "cgroup") == self
	testutil.Assert(t, isHost == inspect.HostConfig.CgroupnsMode.IsHost(),
		"the cgroup namespace is the host's: %v, want %s", isHost, inspect.HostConfig.CgroupnsMode)
}

func checkMetadata(
	t *testing.T, sandbox *container.InspectResponse, pod *runtimeapi.PodSandboxConfig,
	running *container.InspectResponse, app *runtimeapi.ContainerConfig,
) {
	t.Helper()
	gotPod, err := translate.PodConfig(sandbox.Config.Labels, sandbox.Name)
	testutil.Must(t, err)
	got, want := fmt.Sprint(gotPod.Labels, gotPod.Annotations), fmt.Sprint(pod.Labels, pod.Annotations)
	testutil.Assert(t, got == want, "the pod's labels and annotations are %s, want %s", got, want)
	gotApp, sandboxID, err := translate.ContainerConfig(running.Config.Labels, running.Name)
	testutil.Must(t, err)
	if got, want := fmt.Sprint(gotApp.Labels, gotApp.Annotations), fmt.Sprint(app.Labels,
		app.Annotations); got != want {
		t.Errorf("the container's labels and annotations are %s, want %s", got, want)
	}
	testutil.Assert(t, sandboxID == sandbox.ID, "the container's sandbox is %s, want %s", sandboxID, sandbox.ID)
	testutil.Assert(t, sandbox.Config.Labels["evil"] == "yes",
		"the engine no longer merges image labels: this test shows nothing")
}

// A container that a user starts from an image with criadapter's labels is not criadapter's.
func TestAnImageIsNoSandbox(t *testing.T) {
	env := rigenv.Require(t)
	n := newNode(t, env, env.DockerHost, evilImage)
	id := n.create(docker.ContainerSpec{
		Name:   fmt.Sprintf("evil-%x", time.Now().UnixNano()),
		Config: &container.Config{Image: env.Image(evilImage), NetworkDisabled: true},
		Host:   &container.HostConfig{NetworkMode: "none"},
	})
	inspect := n.inspect(id)
	testutil.Require(t, inspect.Config.Labels[translate.LabelKind] == translate.LabelKindSandbox,
		"the image does not carry our labels: this test shows nothing")
	testutil.Equal(t, translate.Identify(inspect.Name, inspect.Config.Labels), translate.KindNone, "identified as")
}

// The limits of daemon.json do not reach pods. Processes of pods inherit the engine's own limits, unless criadapter
// raises a limit.
func TestDefaultUlimitsDoNotLeak(t *testing.T) {
	n := evilNode(t, evilImage)
	inspect := n.start(n.sandboxSpec(evilImage, n.pod(), n.features))
	limits := readProc(t, inspect.State.Pid, "limits")
	for title, leaked := range map[string]string{"Max open files": "512", "Max locked memory": "65536",
		"Max address space": "17179869184"} {
		found := false
		for line := range strings.Lines(limits) {
			if rest, ok := strings.CutPrefix(line, title); ok {
				found = true
				testutil.Assert(t, !slices.Contains(strings.Fields(rest), leaked), "set by daemon.json: %s", line)
			}
		}
		testutil.Assert(t, found, "no limit %q in\n%s", title, limits)
	}
}

func readProc(t *testing.T, pid int, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), name))
	testutil.Must(t, err)
	return strings.TrimSpace(string(content))
}

// statusField returns one line of /proc/PID/status.
func statusField(t *testing.T, pid int, field string) string {
	t.Helper()
	for line := range strings.Lines(readProc(t, pid, "status")) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, field)
	return ""
}

func namespace(t *testing.T, pid int, kind string) string {
	t.Helper()
	link, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "ns", kind))
	testutil.Must(t, err)
	return link
}
