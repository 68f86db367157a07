package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/vishvananda/netlink"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// rig is a criadapter process with an engine and a network, and the pods of one
// test in a Kubernetes namespace of their own.
type rig struct {
	*testing.T
	server    *adapter.Server
	engine    *docker.Client
	namespace string
	// pid is the PID namespace mode of the pods. newRig sets the kubelet's default.
	pid runtimeapi.NamespaceMode
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, rigenv.Require(t))
}

// newRigOn makes a rig on env's engine, with these flags for its server.
func newRigOn(t *testing.T, env rigenv.Env, flags ...string) *rig {
	t.Helper()
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	r := &rig{
		T: t, server: adapter.ForTest(t, adapter.Options{Env: env, Flags: flags}), engine: engine,
		pid: runtimeapi.NamespaceMode_CONTAINER,
	}
	// The name of the server's directory is unique.
	r.namespace = strings.ToLower(filepath.Base(r.server.Dir))
	t.Cleanup(r.tidy)
	return r
}

// tidy removes what a failed test has left in the engine.
func (r *rig) tidy() {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	for _, c := range r.containers(ctx) {
		if err := r.engine.RemoveContainer(ctx, c.ID); err != nil && !errdefs.IsNotFound(err) {
			r.Error(err)
		}
	}
}

// runtime returns a client that sends each request once.
func (r *rig) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(r.server.Conn)
}

func (r *rig) must(err error) {
	r.Helper()
	testutil.Must(r, err)
}

func (r *rig) config(name string, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: r.namespace, Uid: "uid-" + name,
			Attempt: attempt},
		Hostname:     name,
		LogDirectory: filepath.Join(r.server.Dir, "logs", name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: r.pid}, // POD, the zero value, needs a sandbox container
		}},
	}
}

// tryRun is runConfig without a check of the result.
func (r *rig) tryRun(config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	response, err := r.runtime().RunPodSandbox(r.Context(),
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return response.GetPodSandboxId(), err
}

// run makes a pod that must be ready.
func (r *rig) run(name string, attempt uint32) string {
	r.Helper()
	return r.runConfig(r.config(name, attempt), "")
}

func (r *rig) runConfig(config *runtimeapi.PodSandboxConfig, handler string) string {
	r.Helper()
	id, err := r.tryRun(config, handler)
	r.must(err)
	r.wantReady(id)
	return id
}

// pull has the engine pull an image.
func (r *rig) pull(image string) {
	r.Helper()
	_, err := runtimeapi.NewImageServiceClient(r.server.Conn).PullImage(r.Context(),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	r.must(err)
}

// editJSON changes a configuration file.
func (r *rig) editJSON(path string, change func(config map[string]any)) {
	r.Helper()
	content, err := os.ReadFile(path)
	r.must(err)
	var config map[string]any
	r.must(json.Unmarshal(content, &config))
	change(config)
	content, err = json.Marshal(config)
	r.must(err)
	r.must(os.WriteFile(path, content, 0o644))
}

func (r *rig) restart() {
	r.Helper()
	r.must(r.server.Stop(r.Context()))
	r.must(r.server.Start(r.Context()))
}

func (r *rig) stop(id string) {
	r.Helper()
	_, err := r.runtime().StopPodSandbox(r.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	r.must(err)
}

func (r *rig) remove(id string) {
	r.Helper()
	_, err := r.runtime().RemovePodSandbox(r.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	r.must(err)
}

// end stops and removes the pods.
func (r *rig) end(ids ...string) {
	r.Helper()
	for _, id := range ids {
		r.stop(id)
		r.remove(id)
	}
}

// removeLast stops and removes the only pod, of which nothing may be left.
func (r *rig) removeLast(id string) {
	r.Helper()
	r.end(id)
	r.wantNothing(id)
}

func (r *rig) status(id string) *runtimeapi.PodSandboxStatus {
	r.Helper()
	response, err := r.runtime().PodSandboxStatus(r.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	r.must(err)
	return response.GetStatus()
}

// pods are the ids of this test's pods.
func (r *rig) pods() []string {
	r.Helper()
	response, err := r.runtime().ListPodSandbox(r.Context(), &runtimeapi.ListPodSandboxRequest{})
	r.must(err)
	var ids []string
	for _, pod := range response.GetItems() {
		if pod.GetMetadata().GetNamespace() == r.namespace {
			ids = append(ids, pod.GetId())
		}
	}
	return ids
}

func isReady(status *runtimeapi.PodSandboxStatus) bool {
	return status.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
}

func (r *rig) wantReady(id string) {
	r.Helper()
	status := r.status(id)
	testutil.Assert(r, isReady(status) && status.GetNetwork().GetIp() != "",
		"pod %s is %v with the address %q", id[:8], status.GetState(), status.GetNetwork().GetIp())
}

func (r *rig) wantNotReady(id string) {
	r.Helper()
	status := r.status(id)
	testutil.Assert(r, !isReady(status), "pod %s is %v", id[:8], status.GetState())
}

// containers returns the engine's containers of this test's pods.
func (r *rig) containers(ctx context.Context) (found []container.Summary) {
	r.Helper()
	list, err := r.engine.ListContainers(ctx, map[string]string{translate.LabelKind: ""})
	testutil.Check(r, err)
	for _, c := range list {
		if len(c.Names) > 0 && strings.Contains(c.Names[0], "_"+r.namespace+"_") {
			found = append(found, c)
		}
	}
	return found
}

// leases are the addresses that host-local has given out.
func (r *rig) leases() []string {
	r.Helper()
	var found []string
	files, err := filepath.Glob(filepath.Join(r.server.Dir, "ipam", "*", "*"))
	r.must(err)
	for _, file := range files {
		if name := filepath.Base(file); name != "lock" && !strings.HasPrefix(name, "last_reserved_ip") {
			found = append(found, name)
		}
	}
	return found
}

// wantNothing checks that nothing is left of the pods with these ids.
func (r *rig) wantNothing(ids ...string) {
	r.Helper()
	left := r.pods()
	testutil.Assert(r, len(left) == 0, "pods are left: %v", left)
	for _, c := range r.containers(r.Context()) {
		r.Errorf("the engine still has %v", c.Names)
	}
	for _, id := range ids {
		pin := filepath.Join("/run/netns", "criadapter-"+id[:32])
		testutil.Assert(r, !exists(pin), "%s is left", pin)
	}
	for _, dir := range []string{
		filepath.Join(r.server.RootDir, "pods"), filepath.Join(r.server.RootDir, "files"),
		filepath.Join(r.server.CNICacheDir, "results"), filepath.Join(r.server.CNICacheDir, "pending"),
	} {
		entries, err := os.ReadDir(dir)
		testutil.Assert(r, len(entries) == 0 && (err == nil || os.IsNotExist(err)),
			"%s holds %v (%v)", dir, entries, err)
	}
	if left := r.leases(); len(left) != 0 {
		r.Errorf("addresses are still given out: %v", left)
	}
	r.wantNoPorts()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// wantNoPorts checks that no pod is plugged into the bridge.
func (r *rig) wantNoPorts() {
	r.Helper()
	content, err := os.ReadFile(r.server.CNIConfig())
	if err != nil {
		content, err = os.ReadFile(r.server.CNIConfig() + ".away")
	}
	r.must(err)
	var config struct{ Plugins []struct{ Bridge string } }
	r.must(json.Unmarshal(content, &config))
	bridge, err := netlink.LinkByName(config.Plugins[0].Bridge)
	r.must(err)
	links, err := netlink.LinkList()
	r.must(err)
	for _, link := range links {
		if link.Attrs().MasterIndex == bridge.Attrs().Index {
			r.Errorf("%s is still plugged into %s", link.Attrs().Name, bridge.Attrs().Name)
		}
	}
}

// networkReady is the NetworkReady condition of Status.
func (r *rig) networkReady() (bool, string) {
	r.Helper()
	response, err := r.runtime().Status(r.Context(), &runtimeapi.StatusRequest{})
	r.must(err)
	for _, condition := range response.GetStatus().GetConditions() {
		if condition.GetType() == runtimeapi.NetworkReady {
			return condition.GetStatus(), fmt.Sprint(condition)
		}
	}
	return false, "no such condition"
}

// answers reports whether a host answers at an address. A refused connection counts as an answer.
func (r *rig) answers(address string) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "1"), time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED)
}

// bridged starts another server on the same engine, which connects pods to the engine's own bridge.
func (r *rig) bridged() *rig {
	r.Helper()
	env := rigenv.Require(r.T)
	other := &rig{
		T: r.T, engine: r.engine, namespace: r.namespace + "-bridged",
		server: adapter.ForTest(r.T, adapter.Options{Env: env, Flags: []string{"--network-plugin=bridge"}}),
	}
	r.Cleanup(other.tidy)
	return other
}

// newBridgedRig makes a rig on its own engine, whose server connects pods to the engine's bridge.
func newBridgedRig(t *testing.T) *rig {
	t.Helper()
	env := ownEngine(t, map[string]any{"bridge": ""})
	return newRigOn(t, env, "--network-plugin=bridge")
}

// ownEngine starts an engine for one test, with config added to its daemon.json.
func ownEngine(t *testing.T, config map[string]any) rigenv.Env {
	t.Helper()
	return ownEngineOf(t, rigenv.Require(t), config)
}

// ownEngineOf is ownEngine for an env that the test has changed.
func ownEngineOf(t *testing.T, env rigenv.Env, config map[string]any) rigenv.Env {
	t.Helper()
	return engine.ForTest(t, engine.Options{Env: env, Config: config}).Use(env)
}
