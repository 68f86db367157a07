package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/logtail"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// shell is the image with busybox that most tests run.
const shell = "test/busybox:latest"

// node is a runtime and a kubelet-core that watches a directory.
type node struct {
	t      testing.TB
	env    rigenv.Env
	server runtime
	// cri is the test's own client of the server, made with the kubelet's library.
	cri internalapi.RuntimeService
	// dir is for everything that belongs to the test.
	dir string
	// name is the node's name and the owner label of the node's pods. Pod names end with it and UIDs depend on it, so
	// no other pod on the engine has them. manifests is the watched directory, logs the root of container logs, and
	// root the kubelet's --root-dir.
	name, manifests, logs, root string
	// ip is the kubelet's --node-ip.
	ip string
	// flags are further flags of the kubelet.
	flags []string
	// environment has further variables of the kubelet, NAME=value.
	environment []string

	program string
	kubelet *process.Process // nil when it does not run
	output  string           // file
	address string
}

// build makes the program once for all tests, in the rig's directory.
var build = sync.OnceValues(func() (string, error) {
	env, err := rigenv.FromEnviron(os.Getenv)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(env.WorkDir, "kubelet-core-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubelet-core")
	_, err = program.Output(context.Background(), "../..", nil, "go", "build", "-buildvcs=false", "-o", path,
		"./cmd/kubelet-core")
	return path, err
})

// TestMain runs many tests at once, because they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	m.Run()
}

// newNode starts a node with short periods. flags are further flags of the kubelet.
func newNode(t *testing.T, flags ...string) *node {
	t.Helper()
	n := prepareNode(t, flags...)
	n.start()
	return n
}

// prepareNode is newNode without starting the kubelet.
func prepareNode(t *testing.T, flags ...string) *node {
	t.Helper()
	env := rigenv.Require(t)
	t.Parallel()
	program, err := build()
	testutil.Must(t, err)
	server := startRuntime(t, env)
	n := &node{
		t: t, env: env, server: server, program: program, flags: flags, dir: server.Directory(),
		name: rigenv.Unique(strings.TrimPrefix(t.Name(), "Test")), ip: "127.0.0.1",
	}
	n.manifests, n.logs, n.root = filepath.Join(n.dir, "manifests"), filepath.Join(n.dir, "logs"), filepath.Join(n.dir,
		"kubelet")
	n.output = filepath.Join(n.dir, "kubelet.log")
	n.cri, err = cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(server.Endpoint()).WithConnectionTimeout(patience).
		Build(t.Context())
	testutil.Must(t, err)
	for _, dir := range []string{n.manifests, n.scratch()} {
		testutil.Must(t, os.Mkdir(dir, 0o755))
	}
	t.Cleanup(n.clean)
	return n
}

// cgroup is the node's own cgroup. It is below the rig's cgroup, so the rig removes it.
func (n *node) cgroup() string {
	return filepath.Join(n.env.Cgroup(), n.name)
}

// start runs the kubelet and waits for its endpoint.
func (n *node) start() {
	n.t.Helper()
	before, err := os.ReadFile(n.output)
	if !errors.Is(err, fs.ErrNotExist) {
		testutil.Must(n.t, err)
	}
	args := append([]string{
		"run", "--manifests", n.manifests, "--container-runtime-endpoint", n.server.Endpoint(), "--hostname-override",
		n.name,
		// The rig removes the cgroups below its own.
		"--cgroup-root", n.cgroup(), "--cgroup-driver", "cgroupfs",
		"--root-dir", n.root, "--pod-logs-dir", n.logs, "--read-address", "127.0.0.1:0", "--node-ip", n.ip,
		"--claims-dir", filepath.Join(n.dir, "claims"),
		"--crash-backoff", "1s", "--crash-backoff-max", "4s", "--pull-backoff", "1s", "--retry", "1s", "--sync-tick",
		"100ms",
		"--housekeeping", "500ms", "--container-gc-period", "2s", "--image-gc-high-threshold", "100", "--log-level",
		"debug",
		// Only tests in eviction_test.go may depend on the machine's memory.
		"--eviction-hard", "memory.available<0%",
	}, n.flags...)
	n.kubelet, err = process.Start(n.output, n.environment, n.program, args...)
	testutil.Must(n.t, err)
	eventually(n.t, "the kubelet serves reads", func() error {
		text, err := os.ReadFile(n.output)
		if err != nil {
			return err
		}
		_, after, found := bytes.Cut(text[len(before):], []byte(`msg="serving reads" address="`))
		if !found {
			return errors.New("not yet")
		}
		address, _, _ := bytes.Cut(after, []byte(`"`))
		n.address = string(address)
		return nil
	})
}

// stop ends the kubelet, if it runs, and kill does so as a crash would.
func (n *node) stop() {
	n.t.Helper()
	if n.kubelet == nil {
		return
	}
	testutil.Check(n.t, n.kubelet.Stop(context.Background()))
	n.kubelet = nil
}

func (n *node) kill() {
	if n.kubelet != nil {
		n.kubelet.Kill()
		n.kubelet = nil
	}
}

// clean stops the kubelet and removes what it made.
func (n *node) clean() {
	n.stop()
	if n.t.Failed() {
		n.t.Logf("the end of the kubelet's log:\n%s", logtail.Read(n.output, 12<<10))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !n.server.Running() {
		if err := n.server.Start(ctx); err != nil {
			n.t.Error(err)
			return
		}
	}
	own := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: n.name}}
	err := adapter.RemovePods(ctx, n.cri, own)
	if err != nil && n.server.Name() == "containerd" {
		// Containerd 1.6 fails to stop a container that ends at that moment. A kubelet tries again.
		err = adapter.RemovePods(ctx, n.cri, own)
	}
	testutil.Check(n.t, err)
	testutil.Check(n.t, n.cri.Close(ctx))
	for _, point := range slices.Backward(mountsIn(n.t, n.root)) {
		err := syscall.Unmount(point, syscall.MNT_DETACH)
		testutil.Assert(n.t, err == nil, "unmount %s: %v", point, err)
	}
}

// mountsIn lists the mounts on a directory and below it.
func mountsIn(t testing.TB, directory string) []string {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(directory))
	testutil.Must(t, err)
	var points []string
	for _, mount := range mounts {
		points = append(points, mount.Mountpoint)
	}
	return points
}

// write puts a manifest into the directory in one step. In its text SHELL is the image with busybox, and HELLO
// the image with the HTTP service on port 8080. SCRATCH is a directory on the host that outlives the pod.
func (n *node) write(name, text string) {
	n.t.Helper()
	text = n.expand(text)
	temporary := filepath.Join(n.dir, name+".new")
	testutil.Must(n.t, os.WriteFile(temporary, []byte(text), 0o644))
	testutil.Must(n.t, os.Rename(temporary, filepath.Join(n.manifests, name)))
}

// writePod writes the manifest of a pod with this spec; the file has its name.
func (n *node) writePod(name, spec string) {
	n.t.Helper()
	n.write(name+".yaml", testutil.PodYAML(name, spec))
}

// run writes the manifest of a simple pod and waits until the pod is ready.
func (n *node) run(name, command string, fields ...string) *v1.Pod {
	n.t.Helper()
	n.write(name+".yaml", simple(name, command, fields...))
	return n.ready(name)
}

// end removes the manifest of a pod and waits until the pod is gone.
func (n *node) end(name string) {
	n.t.Helper()
	n.remove(name + ".yaml")
	n.gone(name)
}

func (n *node) expand(text string) string {
	return strings.NewReplacer("SHELL", n.env.Image(shell), "HELLO", n.env.Image("test/hello:latest"), "SCRATCH",
		n.scratch()).Replace(text)
}

// scratch is a directory for hostPath volumes.
func (n *node) scratch() string { return filepath.Join(n.dir, "scratch") }

// scratchHas waits until a file in the scratch directory has a text.
func (n *node) scratchHas(name, want string) {
	n.t.Helper()
	fileHas(n.t, filepath.Join(n.scratch(), name), want)
}

// remove deletes a manifest.
func (n *node) remove(name string) {
	n.t.Helper()
	testutil.Must(n.t, os.Remove(filepath.Join(n.manifests, name)))
}

// get reads the kubelet's endpoint.
func (n *node) get(path string) ([]byte, error) {
	client := http.Client{Timeout: patience}
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

// metricsHave waits until the kubelet's metrics have a text.
func (n *node) metricsHave(want string) {
	n.t.Helper()
	eventually(n.t, "the metrics", func() error {
		body, err := n.get("/metrics")
		if err != nil {
			return err
		}
		return wantText(string(body), want)
	})
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

// find returns the kubelet's pod whose manifest has this name.
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

// replaced waits until the node has a single pod, which is ready and is not old. It returns that pod.
func (n *node) replaced(old *v1.Pod) *v1.Pod {
	n.t.Helper()
	var found *v1.Pod
	eventually(n.t, "another pod instead of "+old.Name, func() error {
		pods, err := n.pods()
		if err != nil {
			return err
		}
		if len(pods) != 1 || pods[0].UID == old.UID {
			return fmt.Errorf("%d pods", len(pods))
		}
		found = &pods[0]
		return wantReady(found, v1.ConditionTrue)
	})
	return found
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

// nothingOf fails if the runtime has a sandbox of the pod.
func (n *node) nothingOf(fullName string) error {
	sandboxes, err := n.cri.ListPodSandbox(n.t.Context(), &runtimeapi.PodSandboxFilter{
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

// event waits for an event with this reason about the pod whose manifest has this name.
func (n *node) event(pod, reason string) v1.Event {
	n.t.Helper()
	if pod != "" {
		pod += "-" + n.name
	}
	return n.eventOf(pod, reason)
}

// eventOf waits for an event with that reason. pod is the name of the event's object. An empty name matches every
// object.
func (n *node) eventOf(pod, reason string) v1.Event {
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
			if event.InvolvedObject.Name != pod && pod != "" {
				continue
			}
			if event.Reason == reason {
				found = event
				return nil
			}
			seen = append(seen, event.Reason)
		}
		return fmt.Errorf("the only events are %v", seen)
	})
	return found
}

// log is the text of a container's attempt, without the columns of the CRI format.
func (n *node) log(pod *v1.Pod, container string, attempt uint32) string {
	n.t.Helper()
	raw, err := os.ReadFile(
		filepath.Join(model.PodLogDirectory(n.logs, pod), model.ContainerLogPath(container, attempt)))
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
		return wantText(n.log(pod, container, attempt), want)
	})
}

// exec runs a command in a container and returns its output.
func (n *node) exec(pod *v1.Pod, container string, command ...string) string {
	n.t.Helper()
	stdout, stderr, err := n.cri.ExecSync(n.t.Context(), id(pod, container), command, patience)
	testutil.Require(n.t, err == nil, "%v: %v: %s", command, err, stderr)
	return strings.TrimSpace(string(stdout))
}

// id is a container's id without the runtime's name.
func id(pod *v1.Pod, container string) string {
	_, id, _ := strings.Cut(status(pod, container).ContainerID, "://")
	return id
}

// killContainers kills containers and sandboxes behind the runtime's back: with the docker command on an engine.
func (n *node) killContainers(ids ...string) {
	n.t.Helper()
	for _, id := range ids {
		testutil.Must(n.t, n.server.KillContainer(n.t.Context(), id))
	}
}

// endSandboxes ends a pod's ready sandboxes behind the kubelet core's back by killing the sandbox containers. A pod
// without a sandbox container is stopped through the test's own CRI client.
func (n *node) endSandboxes(pod *v1.Pod) {
	n.t.Helper()
	for _, id := range n.sandboxes(pod, false) {
		err := n.server.KillContainer(n.t.Context(), id)
		if errdefs.IsNotFound(err) {
			err = n.cri.StopPodSandbox(n.t.Context(), id)
		}
		testutil.Must(n.t, err)
	}
}

// sandboxes are the ids of a pod's sandboxes, the ready ones or all.
func (n *node) sandboxes(pod *v1.Pod, all bool) []string {
	n.t.Helper()
	filter := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelPodUID: string(pod.UID)}}
	if !all {
		filter.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	}
	list, err := n.cri.ListPodSandbox(n.t.Context(), filter)
	testutil.Must(n.t, err)
	var ids []string
	for _, sandbox := range list {
		ids = append(ids, sandbox.GetId())
	}
	return ids
}
