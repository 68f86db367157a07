package takeover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// patience is for what a loaded machine takes long for.
	patience = 3 * time.Minute
	// shell is the image with busybox.
	shell = "test/busybox:latest"
)

// node is an engine of its own with a kubelet, and one of two CRI servers between them.
type node struct {
	t        *testing.T
	env      rigenv.Env
	programs Programs
	// adapter is criadapter, running or not; its directory holds everything.
	adapter *adapter.Server
	peer    *peers.Process // nil when cri-dockerd does not run
	kubelet *peers.Process // nil when it does not run
	// cri is the kubelet's own client of the server that runs.
	cri    internalapi.RuntimeService
	engine *client.Client
}

func newNode(t *testing.T) *node {
	t.Helper()
	programs, err := fromEnviron(os.Getenv)
	if err != nil {
		t.Skip(err) // also where CI=true: .ci/run has a line of its own for it
	}
	n := &node{t: t, env: rigenv.Require(t), programs: programs}
	n.startEngine()
	n.adapter = adapter.NewForTest(t, adapter.Options{Env: n.env})
	// cri-dockerd knows pods by their sandbox containers, and gets them back here.
	n.adapter.SetFlags("--sandbox-container=always", "--migrate-root-directories="+n.path("cri-dockerd"), "--migrate-cni-cache-dirs="+n.path("their-cache"))
	for _, dir := range []string{n.manifests(), n.logs(), n.path("kubelet"), n.path("host"), n.path("volumeplugins")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.mountLogs()
	if n.programs.Kubelet != "" {
		n.prepareReal()
	}
	t.Cleanup(n.clean)
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.adapter.Dir, name) }
func (n *node) manifests() string       { return n.path("manifests") }
func (n *node) logs() string            { return n.path("logs") }

// mountLogs gives the logs a file system of their own: how much history is converted depends on its free space.
func (n *node) mountLogs() {
	n.t.Helper()
	if err := unix.Mount("tmpfs", n.logs(), "tmpfs", 0, "size=256m"); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := unix.Unmount(n.logs(), unix.MNT_DETACH); err != nil {
			n.t.Error(err)
		}
	})
}

// startEngine starts an engine that nobody else's pods are on, and gives it the sandbox image.
func (n *node) startEngine() {
	n.t.Helper()
	dir, err := os.MkdirTemp(n.env.WorkDir, "e")
	if err != nil {
		n.t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		Dir: dir, Env: n.env,
		Config: map[string]any{"cgroup-parent": "/" + n.env.Cgroup()},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			n.t.Error(err)
		}
	})
	if err := e.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.env.DockerHost, n.env.DockerRoot = e.Host(), e.Root()
	if n.engine, err = client.New(client.WithHost(e.Host())); err != nil {
		n.t.Fatal(err)
	}
	archive, err := pause.Archive(runtime.GOARCH)
	if err != nil {
		n.t.Fatal(err)
	}
	n.pull(shell)
	loaded, err := n.engine.ImageLoad(n.t.Context(), bytes.NewReader(archive))
	if err == nil {
		_, err = io.Copy(io.Discard, loaded)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) pull(name string) {
	n.t.Helper()
	pulling, err := n.engine.ImagePull(n.t.Context(), n.env.Image(name), client.ImagePullOptions{})
	if err == nil {
		err = pulling.Wait(n.t.Context())
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// onCRIDockerd makes cri-dockerd the node's server.
func (n *node) onCRIDockerd() {
	n.t.Helper()
	socket := "unix://" + n.path("peer.sock")
	var err error
	n.peer, err = peers.StartProcess(n.path("cri-dockerd.log"), nil, n.programs.CRIDockerd,
		"--container-runtime-endpoint="+socket, "--docker-endpoint="+n.env.DockerHost,
		"--cri-dockerd-root-directory="+n.path("cri-dockerd"), "--pod-infra-container-image="+pause.Reference,
		"--network-plugin=cni", "--cni-conf-dir="+n.adapter.CNIConfDir, "--cni-bin-dir="+n.env.CNIBinDir,
		"--cni-cache-dir="+n.path("their-cache"), "--streaming-bind-addr=127.0.0.1:0", "--ipv6-dual-stack")
	if err != nil {
		n.t.Fatal(err)
	}
	n.connect(socket)
	n.startKubelet(socket)
}

// onCriadapter makes criadapter the node's server.
func (n *node) onCriadapter() {
	n.t.Helper()
	if err := n.adapter.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.connect(n.adapter.Endpoint)
	n.startKubelet(n.adapter.Endpoint)
}

// connect waits until the server answers.
func (n *node) connect(socket string) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, "the CRI server is ready", func() error {
		var err error
		if n.cri, err = cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(socket).WithConnectionTimeout(patience).Build(n.t.Context()); err != nil {
			return err
		}
		status, err := n.cri.Status(n.t.Context(), false)
		if err != nil {
			return err
		}
		for _, condition := range status.GetStatus().GetConditions() {
			if !condition.GetStatus() {
				return fmt.Errorf("%s: %s", condition.GetType(), condition.GetMessage())
			}
		}
		return nil
	})
}

// stopKubelet and stopServer end the two; pods go on.
func (n *node) stopKubelet() {
	n.t.Helper()
	if n.kubelet == nil {
		return
	}
	if err := n.kubelet.Stop(context.WithoutCancel(n.t.Context())); err != nil {
		n.t.Error(err)
	}
	n.kubelet = nil
}

func (n *node) stopServer() {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context())
	if n.peer != nil {
		if err := n.peer.Stop(ctx); err != nil {
			n.t.Error(err)
		}
		n.peer = nil
	}
	if err := n.adapter.Stop(ctx); err != nil {
		n.t.Error(err)
	}
}

func (n *node) startKubelet(socket string) {
	n.t.Helper()
	program, args := n.programs.KubeletCore, n.coreArgs(socket)
	if n.programs.Kubelet != "" {
		program, args = n.programs.Kubelet, n.realArgs(socket)
	}
	var err error
	if n.kubelet, err = peers.StartProcess(n.path("kubelet.log"), nil, program, args...); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) coreArgs(socket string) []string {
	return []string{
		"run", "--manifests", n.manifests(), "--container-runtime-endpoint", socket, "--hostname-override", "node",
		"--cgroup-root", filepath.Join(n.env.Cgroup(), "pods"), "--cgroup-driver", "cgroupfs",
		"--root-dir", n.path("kubelet"), "--pod-logs-dir", n.logs(), "--read-address", "127.0.0.1:0", "--node-ip", "127.0.0.1",
		"--crash-backoff", "1s", "--retry", "1s", "--housekeeping", "500ms", "--container-gc-period", "2s",
		"--image-gc-high-threshold", "100", "--log-level", "debug",
	}
}

// clean removes what is left of the pods, by whatever server runs.
func (n *node) clean() {
	n.stopKubelet()
	if n.t.Failed() {
		for _, name := range []string{"kubelet.log", "cri-dockerd.log"} {
			text, _ := os.ReadFile(n.path(name)) // for people only
			n.t.Logf("the end of %s:\n%s", name, text[max(0, len(text)-6<<10):])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n.peer == nil && n.adapter.PID() == 0 {
		if err := n.adapter.Start(ctx); err != nil {
			n.t.Error(err)
			return
		}
		n.cri = n.adapter.Runtime
	}
	if n.cri != nil {
		sandboxes, err := n.cri.ListPodSandbox(ctx, nil)
		if err != nil {
			n.t.Error(err)
		}
		for _, sandbox := range sandboxes {
			if err := errors.Join(n.cri.StopPodSandbox(ctx, sandbox.GetId()), n.cri.RemovePodSandbox(ctx, sandbox.GetId())); err != nil {
				n.t.Error(err)
			}
		}
	}
	if n.peer != nil {
		if err := n.peer.Stop(ctx); err != nil {
			n.t.Error(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		n.t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[1]; strings.HasPrefix(point, n.path("kubelet")+"/") {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				n.t.Errorf("unmount %s: %v", point, err)
			}
		}
	}
}

// write puts a manifest where the kubelet looks, in one step.
func (n *node) write(name, text string) {
	n.t.Helper()
	text = strings.NewReplacer("SHELL", n.env.Image(shell), "HOST", n.path("host")).Replace(text)
	fresh := n.path(name + ".new")
	if err := errors.Join(os.WriteFile(fresh, []byte(text), 0o644), os.Rename(fresh, filepath.Join(n.manifests(), name+".yaml"))); err != nil {
		n.t.Fatal(err)
	}
}

// exec runs a command in a container.
func (n *node) exec(id string, command ...string) (string, error) {
	stdout, stderr, err := n.cri.ExecSync(n.t.Context(), id, command, patience)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, stderr)
	}
	return string(stdout), nil
}
