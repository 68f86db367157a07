package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// patience bounds each wait of a test.
const patience = 60 * time.Second

// shell is the image with busybox that most tests run.
const shell = "test/busybox:latest"

// node is a criadapter and a kubelet-core that watches a folder.
type node struct {
	t      testing.TB
	env    rigenv.Env
	server *adapter.Server
	// name is the node's name and the mark of its pods; manifests the folder; logs the root of container logs; root the
	// kubelet's own folder.
	name, manifests, logs, root string
	// flags are added to the kubelet's.
	flags []string

	program string
	cmd     *exec.Cmd
	ended   chan struct{}
	output  string // file
	address string
}

// build makes the program once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kubelet-core-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "kubelet-core")
	command := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/kubelet-core")
	command.Dir = filepath.Join("..", "..")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return program, nil
})

// TestMain runs many tests at once, because they mostly wait, and removes the program.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	if program, err := build(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// newNode starts a node with short periods. Flags are added to the kubelet's.
func newNode(t testing.TB, flags ...string) *node {
	t.Helper()
	n := prepareNode(t, flags...)
	n.start()
	return n
}

// prepareNode is newNode without starting the kubelet.
func prepareNode(t testing.TB, flags ...string) *node {
	t.Helper()
	env := rigenv.Require(t)
	if test, ok := t.(*testing.T); ok {
		test.Parallel()
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	server := adapter.ForTest(t, adapter.Options{Env: env})
	n := &node{
		t: t, env: env, server: server, program: program, flags: flags,
		name:      strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test"), "Benchmark")),
		manifests: filepath.Join(server.Dir, "manifests"), logs: filepath.Join(server.Dir, "logs"), root: filepath.Join(server.Dir, "kubelet"),
		output: filepath.Join(server.Dir, "kubelet.log"),
	}
	for _, dir := range []string{n.manifests, n.scratch()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(n.clean)
	return n
}

// start runs the kubelet and waits for its endpoint.
func (n *node) start() {
	n.t.Helper()
	log, err := os.OpenFile(n.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	before, err := os.ReadFile(n.output)
	if err != nil {
		n.t.Fatal(err)
	}
	args := append([]string{
		"run", "--manifests", n.manifests, "--container-runtime-endpoint", n.server.Endpoint, "--hostname-override", n.name,
		// The rig removes the cgroups below its own.
		"--cgroup-root", filepath.Join(filepath.Base(filepath.Dir(n.env.WorkDir)), n.name),
		"--root-dir", n.root, "--pod-logs-dir", n.logs, "--read-address", "127.0.0.1:0", "--node-ip", "127.0.0.1",
		"--crash-backoff", "1s", "--crash-backoff-max", "4s", "--pull-backoff", "1s", "--retry", "1s", "--sync-tick", "100ms",
		"--housekeeping", "500ms", "--container-gc-period", "2s", "--image-gc-high-threshold", "100", "--log-level", "debug",
	}, n.flags...)
	n.cmd = exec.Command(n.program, args...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, ended := n.cmd, make(chan struct{})
	n.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	eventually(n.t, "the kubelet serves reads", func() error {
		text, err := os.ReadFile(n.output)
		if err != nil {
			return err
		}
		_, after, found := bytes.Cut(text[len(before):], []byte(`msg="Serving reads" address="`))
		if !found {
			return errors.New("not yet")
		}
		address, _, _ := bytes.Cut(after, []byte(`"`))
		n.address = string(address)
		return nil
	})
}

// signal sends the kubelet a signal and waits for its end.
func (n *node) signal(signal os.Signal) {
	n.t.Helper()
	if n.cmd == nil {
		return
	}
	if err := n.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Error(err)
	}
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.t.Errorf("the kubelet does not end after %v", signal)
		_ = n.cmd.Process.Kill() // it is being given up
		<-n.ended
	}
	n.cmd = nil
}

func (n *node) stop() { n.t.Helper(); n.signal(syscall.SIGTERM) }
func (n *node) kill() { n.t.Helper(); n.signal(syscall.SIGKILL) }

// clean stops the kubelet and removes what it made.
func (n *node) clean() {
	if n.cmd != nil {
		n.stop()
	}
	if n.t.Failed() {
		text, _ := os.ReadFile(n.output) // for people only
		n.t.Logf("the end of the kubelet's log:\n%s", text[max(0, len(text)-12<<10):])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n.server.PID() == 0 {
		if err := n.server.Start(ctx); err != nil {
			n.t.Error(err)
			return
		}
	}
	sandboxes, err := n.server.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: n.name}})
	if err != nil {
		n.t.Error(err)
	}
	for _, sandbox := range sandboxes {
		if err := errors.Join(n.server.Runtime.StopPodSandbox(ctx, sandbox.GetId()), n.server.Runtime.RemovePodSandbox(ctx, sandbox.GetId())); err != nil {
			n.t.Error(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		n.t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[1]; strings.HasPrefix(point, n.root+"/") {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				n.t.Errorf("unmount %s: %v", point, err)
			}
		}
	}
}

// write puts a manifest into the folder in one step. In its text SHELL is the image with busybox, HELLO the one with the
// HTTP service on port 8080, SCRATCH a folder on the host that outlives the pod.
func (n *node) write(name, text string) {
	n.t.Helper()
	text = n.expand(text)
	temporary := filepath.Join(n.server.Dir, name+".new")
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(n.manifests, name)); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) expand(text string) string {
	return strings.NewReplacer("SHELL", n.env.Image(shell), "HELLO", n.env.Image("test/hello:latest"), "SCRATCH", n.scratch()).Replace(text)
}

// scratch is a folder for hostPath volumes.
func (n *node) scratch() string { return filepath.Join(n.server.Dir, "scratch") }

// scratchHas waits until a file in the scratch folder has a text.
func (n *node) scratchHas(name, want string) {
	n.t.Helper()
	eventually(n.t, name, func() error {
		text, err := os.ReadFile(filepath.Join(n.scratch(), name))
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("it lacks %q:\n%s", want, text)
		}
		return nil
	})
}

// remove takes a manifest away.
func (n *node) remove(name string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.manifests, name)); err != nil {
		n.t.Fatal(err)
	}
}

// get reads the kubelet's endpoint.
func (n *node) get(path string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + n.address + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return body, nil
}

// pods are all pods that the kubelet knows.
func (n *node) pods() ([]v1.Pod, error) {
	body, err := n.get("/pods")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// find returns the pod of that name in its manifest.
func (n *node) find(name string) (*v1.Pod, error) {
	pods, err := n.pods()
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Name == name+"-"+n.name {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("there is no pod %s", name)
}

// until waits until the pod is as check wants it, and returns it.
func (n *node) until(name string, check func(*v1.Pod) error) *v1.Pod {
	n.t.Helper()
	var found *v1.Pod
	eventually(n.t, "pod "+name, func() error {
		pod, err := n.find(name)
		if err != nil {
			return err
		}
		found = pod
		return check(pod)
	})
	return found
}

// ready waits until the pod is ready.
func (n *node) ready(name string) *v1.Pod {
	n.t.Helper()
	return n.until(name, func(pod *v1.Pod) error { return wantReady(pod, v1.ConditionTrue) })
}

func wantReady(pod *v1.Pod, want v1.ConditionStatus) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady && condition.Status == want {
			return nil
		}
	}
	return fmt.Errorf("not Ready=%s: %s %s", want, pod.Status.Phase, states(pod))
}

func wantPhase(phase v1.PodPhase) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("phase %s, want %s: %s", pod.Status.Phase, phase, states(pod))
		}
		return nil
	}
}

// states tells the states of a pod's containers, for messages.
func states(pod *v1.Pod) string {
	text, err := json.Marshal(append(append([]v1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// status is the status of one container; the zero value if there is none.
func status(pod *v1.Pod, container string) v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return list[i]
			}
		}
	}
	return v1.ContainerStatus{}
}

// restarted waits until a container has been restarted at least so often.
func (n *node) restarted(pod, container string, times int32) *v1.Pod {
	n.t.Helper()
	return n.until(pod, func(pod *v1.Pod) error {
		if got := status(pod, container).RestartCount; got < times {
			return fmt.Errorf("%s was restarted %d times, want %d", container, got, times)
		}
		return nil
	})
}

// gone waits until neither the kubelet nor the runtime has anything of the pod.
func (n *node) gone(name string) {
	n.t.Helper()
	eventually(n.t, "pod "+name+" is gone", func() error {
		if pod, err := n.find(name); err == nil {
			return fmt.Errorf("the kubelet has it: %s", pod.Status.Phase)
		}
		return n.nothingOf(name + "-" + n.name)
	})
}

// nothingOf says what the runtime has of a pod.
func (n *node) nothingOf(fullName string) error {
	sandboxes, err := n.server.Runtime.ListPodSandbox(n.t.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{model.LabelOwner: n.name, model.LabelPodName: fullName},
	})
	if err != nil {
		return err
	}
	if len(sandboxes) > 0 {
		return fmt.Errorf("the runtime has sandbox %v", sandboxes[0])
	}
	return nil
}

// event waits for an event of the pod with that reason.
func (n *node) event(pod, reason string) v1.Event {
	n.t.Helper()
	var found v1.Event
	eventually(n.t, fmt.Sprintf("event %s of %q", reason, pod), func() error {
		body, err := n.get("/events")
		if err != nil {
			return err
		}
		var list v1.EventList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		var seen []string
		for _, event := range list.Items {
			if event.InvolvedObject.Name != pod+"-"+n.name && pod != "" {
				continue
			}
			if event.Reason == reason {
				found = event
				return nil
			}
			seen = append(seen, event.Reason)
		}
		return fmt.Errorf("there are only %v", seen)
	})
	return found
}

// log is the text of a container's attempt, without the columns of the CRI format.
func (n *node) log(pod *v1.Pod, container string, attempt uint32) string {
	n.t.Helper()
	raw, err := os.ReadFile(filepath.Join(model.PodLogDirectory(n.logs, pod), model.ContainerLogPath(container, attempt)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(raw)) {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			text.WriteString(fields[3])
		}
	}
	return text.String()
}

// logHas waits until a container's log has a text.
func (n *node) logHas(pod *v1.Pod, container string, attempt uint32, want string) {
	n.t.Helper()
	eventually(n.t, "log of "+container, func() error {
		if text := n.log(pod, container, attempt); !strings.Contains(text, want) {
			return fmt.Errorf("it lacks %q:\n%s", want, text)
		}
		return nil
	})
}

// exec runs a command in a container and returns its output.
func (n *node) exec(pod *v1.Pod, container string, command ...string) string {
	n.t.Helper()
	stdout, stderr, err := n.server.Runtime.ExecSync(n.t.Context(), id(pod, container), command, 10*time.Second)
	if err != nil {
		n.t.Fatalf("%v: %v: %s", command, err, stderr)
	}
	return strings.TrimSpace(string(stdout))
}

// id is a container's id without the runtime's name.
func id(pod *v1.Pod, container string) string {
	_, id, _ := strings.Cut(status(pod, container).ContainerID, "://")
	return id
}

// docker runs the docker command on the rig's engine.
func (n *node) docker(args ...string) string {
	n.t.Helper()
	output, err := exec.CommandContext(n.t.Context(), "docker", append([]string{"--host", n.env.DockerHost}, args...)...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// eventually repeats check until it returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stays checks for a while that nothing changes.
func stays(t testing.TB, what string, during time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(during); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := check(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
