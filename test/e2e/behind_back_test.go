package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestBehindOurBack changes containers with the docker command, and restarts the engine after SIGKILL and after
// SIGTERM. After each step it compares the server with the engine.
func TestBehindOurBack(t *testing.T) {
	for _, liveRestore := range []bool{false, true} {
		t.Run(fmt.Sprintf("live-restore=%t", liveRestore), func(t *testing.T) {
			n := newTamperedNode(t, liveRestore)
			for _, step := range n.steps() {
				step.do()
				n.compare(step.what)
				if t.Failed() {
					return // the next steps need the result of this step
				}
			}
		})
	}
}

// tamperedNode is a server on an engine of its own. The test changes the engine behind the server's back.
type tamperedNode struct {
	t           *testing.T
	env         rigenv.Env
	engine      *engine.Engine
	server      *adapter.Server
	liveRestore bool
	// pods has the ids of sandboxes. containers has the ids of two containers of each pod, in the order of pods.
	pods, containers []string
}

func newTamperedNode(t *testing.T, liveRestore bool) *tamperedNode {
	t.Helper()
	n := &tamperedNode{t: t, env: rigenv.Require(t), liveRestore: liveRestore}
	n.engine = engine.ForTest(t, engine.Options{Env: n.env, Config: map[string]any{"live-restore": liveRestore}})
	n.server = adapter.ForTest(t, adapter.Options{Env: n.engine.Use(n.env)})
	pull(t, n.server, n.image())
	for i := range 6 {
		n.addPod(fmt.Sprintf("tampered-%t-%d", liveRestore, i))
	}
	return n
}

func (n *tamperedNode) image() string { return n.env.Image("test/busybox:latest") }

// addPod runs a pod with two containers.
func (n *tamperedNode) addPod(name string) {
	n.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: name + "-uid"},
		LogDirectory: filepath.Join(n.server.Dir, "logs", name),
		// The shared PID namespace gives the pod a sandbox container, with which steps tamper.
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{}},
		},
	}
	pod, err := n.server.Runtime.RunPodSandbox(n.t.Context(), config, "")
	testutil.Must(n.t, err)
	n.pods = append(n.pods, pod)
	for i := range 2 {
		n.containers = append(n.containers, runContainer(n.t, n.server, pod, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint("c", i)},
			Image:    &runtimeapi.ImageSpec{Image: n.image()},
			Command:  []string{"sleep", "1000000"},
			LogPath:  fmt.Sprintf("c%d.log", i),
		}, config))
	}
}

// docker runs the docker command on the engine and returns its output.
func (n *tamperedNode) docker(args ...string) string {
	n.t.Helper()
	return engine.Docker(n.t, n.engine.Host(), args...)
}

// tampering is one change of the engine behind the server's back.
type tampering struct {
	what string
	do   func()
}

func (n *tamperedNode) steps() []tampering {
	c, sibling := n.containers, "k8s_sibling_tampered_e2e_sibling-uid_0"
	return []tampering{
		{"nothing yet", func() {}},
		{"a container is removed", func() { n.removeOne(c[0]) }},
		{"a container is killed", func() { n.docker("kill", c[1]) }},
		{"a container is stopped", func() { n.docker("stop", "--time", "0", c[2]) }},
		{"a stopped container is started again", func() { n.docker("start", c[2]) }},
		{"a container is paused", func() { n.docker("pause", c[3]) }},
		{"a paused container goes on", func() { n.docker("unpause", c[3]) }},
		{"a container that is not a pod's is run", func() {
			n.docker("run", "--detach", "--network", "none", n.image(), "sleep", "1000000")
		}},
		{"a container of a pod is created", func() {
			n.docker("create", "--name", sibling, "--network", "container:"+n.pods[1], "--label",
				"io.kubernetes.docker.type=container",
				"--label", "io.kubernetes.sandbox.id="+n.pods[1], "--label", "io.kubernetes.container.name=sibling",
				n.image(), "sh", "-c", "exit 7")
		}},
		{"that container is started, and ends", func() { n.docker("start", sibling) }},
		{"a sandbox is killed", func() { n.docker("kill", n.pods[2]) }},
		{"a sandbox is removed", func() { n.docker("rm", "--force", n.pods[3]) }},
		{"the engine is killed and started", n.restartEngine},
		{"a container is killed on the restarted engine", n.killOne},
		{"the engine is restarted, and a container ends meanwhile", n.endWhileAway},
	}
}

// removeOne removes a container. It stays listed with its end until the kubelet removes it, too.
func (n *tamperedNode) removeOne(id string) {
	n.t.Helper()
	n.docker("rm", "--force", id)
	testutil.Eventually(n.t, func() error {
		response, err := n.server.Runtime.ContainerStatus(n.t.Context(), id, false)
		if err != nil {
			return err
		}
		if status := response.GetStatus(); status.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED ||
			status.GetExitCode() != 137 {
			return fmt.Errorf("the removed container is %v", status)
		}
		return nil
	})
	testutil.Must(n.t, n.server.Runtime.RemoveContainer(n.t.Context(), id))
}

// killOne kills a container. Without live-restore it does nothing, because no container has outlived the engine.
func (n *tamperedNode) killOne() {
	if n.liveRestore {
		n.docker("kill", n.containers[8])
	}
}

func (n *tamperedNode) restartEngine() {
	n.engine.Kill()
	testutil.Must(n.t, n.engine.Start(n.t.Context()))
}

// endWhileAway ends a container while the engine is away; with live-restore no event reports it.
func (n *tamperedNode) endWhileAway() {
	pid := n.inspect(n.containers[9]).State.Pid
	testutil.Must(n.t, n.engine.Terminate(n.t.Context()))
	if n.liveRestore {
		testutil.Must(n.t, syscall.Kill(pid, syscall.SIGKILL))
	}
	testutil.Must(n.t, n.engine.Start(n.t.Context()))
}

// seen is a part of the answer of `docker inspect`.
type seen struct {
	ID    string `json:"Id"`
	State struct {
		Status   string
		Running  bool
		Pid      int
		ExitCode int32
	}
	Config struct{ Labels map[string]string }
}

func (n *tamperedNode) inspect(ids ...string) seen { return n.inspectAll(ids...)[0] }

func (n *tamperedNode) inspectAll(ids ...string) []seen {
	n.t.Helper()
	var all []seen
	text := n.docker(append([]string{"inspect", "--type", "container"}, ids...)...)
	testutil.Must(n.t, json.Unmarshal([]byte(text), &all))
	return all
}

// compare waits until the server and the engine agree on every pod and container.
func (n *tamperedNode) compare(after string) {
	n.t.Helper()
	testutil.Eventually(n.t, func() error {
		ids := strings.Fields(
			n.docker("ps", "--all", "--quiet", "--no-trunc", "--filter", "label=io.kubernetes.docker.type"))
		var sandboxes, containers []seen
		for _, one := range n.inspectAll(ids...) {
			if one.Config.Labels["io.kubernetes.docker.type"] == "podsandbox" {
				sandboxes = append(sandboxes, one)
			} else {
				containers = append(containers, one)
			}
		}
		if err := n.compareContainers(containers); err != nil {
			return fmt.Errorf("after %q: %w", after, err)
		}
		if err := n.comparePods(sandboxes); err != nil {
			return fmt.Errorf("after %q: %w", after, err)
		}
		return nil
	})
}

func (n *tamperedNode) compareContainers(want []seen) error {
	listed, err := n.server.Runtime.ListContainers(n.t.Context(), nil)
	if err != nil {
		return err
	}
	if len(listed) != len(want) {
		return fmt.Errorf("%d containers are listed, the engine has %d", len(listed), len(want))
	}
	states := map[string]runtimeapi.ContainerState{
		"created": runtimeapi.ContainerState_CONTAINER_CREATED,
		"running": runtimeapi.ContainerState_CONTAINER_RUNNING,
		"paused":  runtimeapi.ContainerState_CONTAINER_RUNNING,
		"exited":  runtimeapi.ContainerState_CONTAINER_EXITED,
	}
	for _, one := range want {
		i := slices.IndexFunc(listed, func(c *runtimeapi.Container) bool { return c.GetId() == one.ID })
		if i < 0 {
			return fmt.Errorf("container %s is not listed", one.ID)
		}
		response, err := n.server.Runtime.ContainerStatus(n.t.Context(), one.ID, false)
		if err != nil {
			return err
		}
		state, code := response.GetStatus().GetState(), response.GetStatus().GetExitCode()
		if state != states[one.State.Status] || listed[i].GetState() != state || code != one.State.ExitCode {
			return fmt.Errorf("container %s is %v with code %d, listed as %v; the engine says %+v", one.ID, state, code,
				listed[i].GetState(), one.State)
		}
	}
	return nil
}

// comparePods: a pod is ready while its sandbox runs. A pod whose sandbox is gone stays listed until a client removes
// it, because the pod may hold an address.
func (n *tamperedNode) comparePods(sandboxes []seen) error {
	listed, err := n.server.Runtime.ListPodSandbox(n.t.Context(), nil)
	if err != nil {
		return err
	}
	if len(listed) != len(n.pods) {
		return fmt.Errorf("%d pods are listed, want %d", len(listed), len(n.pods))
	}
	running := map[string]bool{}
	for _, sandbox := range sandboxes {
		running[sandbox.ID] = sandbox.State.Running
	}
	for _, pod := range listed {
		want := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if running[pod.GetId()] {
			want = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		response, err := n.server.Runtime.PodSandboxStatus(n.t.Context(), pod.GetId(), false)
		if err != nil {
			return err
		}
		if pod.GetState() != want || response.GetStatus().GetState() != want {
			return fmt.Errorf("pod %s is listed as %v, with status %v, want %v", pod.GetId(), pod.GetState(),
				response.GetStatus().GetState(), want)
		}
	}
	return nil
}
