package takeover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/logtail"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// patience bounds waits. It is long enough for a loaded machine.
	patience = 3 * time.Minute
	// shell is the image with busybox.
	shell = "test/busybox:latest"
)

// node is an engine and a kubelet, with one of two CRI servers between them.
type node struct {
	t        *testing.T
	env      rigenv.Env
	programs Programs
	// adapter is criadapter, running or not. Its directory has all files of the node.
	adapter *adapter.Server
	peer    *process.Process // nil while cri-dockerd does not run
	kubelet *process.Process // nil while it does not run
	// cri is a client of the running server, of the kind that the kubelet uses.
	cri    internalapi.RuntimeService
	engine *client.Client
}

func newNode(t *testing.T) *node {
	t.Helper()
	programs, err := fromEnviron(os.Getenv)
	if err != nil {
		t.Skip(err) // even with CI=true, because .ci/run has a separate command for these tests
	}
	n := &node{t: t, env: rigenv.Require(t), programs: programs}
	n.startEngine()
	n.adapter = adapter.NewForTest(t, adapter.Options{Env: n.env})
	// The pods need sandbox containers, by which cri-dockerd finds them after the hand-back.
	n.adapter.SetFlags(append([]string{"--sandbox-container=always"}, n.migrateFlags()...)...)
	for _, name := range []string{"manifests", "logs", "kubelet", "host", "volumeplugins", "cri-dockerd"} {
		testutil.Must(t, os.Mkdir(n.path(name), 0o755))
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

// mountLogs mounts a file system for the logs, because its free space decides how much history is converted.
func (n *node) mountLogs() {
	n.t.Helper()
	testutil.Must(n.t, unix.Mount("tmpfs", n.logs(), "tmpfs", 0, "size=256m"))
	n.t.Cleanup(func() {
		testutil.Check(n.t, unix.Unmount(n.logs(), unix.MNT_DETACH))
	})
}

// startEngine starts an engine without other pods, and gives it the sandbox image.
func (n *node) startEngine() {
	n.t.Helper()
	e := engine.ForTest(n.t, engine.Options{Env: n.env, Config: map[string]any{"cgroup-parent": "/" + n.env.Cgroup()}})
	n.env = e.Use(n.env)
	var err error
	n.engine, err = client.New(client.WithHost(e.Host()))
	testutil.Must(n.t, err)
	n.pull(shell)
	testutil.Must(n.t, peers.LoadSandboxImage(n.t.Context(), e.Host()))
}

func (n *node) pull(name string) {
	n.t.Helper()
	pulling, err := n.engine.ImagePull(n.t.Context(), n.env.Image(name), client.ImagePullOptions{})
	if err == nil {
		err = pulling.Wait(n.t.Context())
	}
	testutil.Must(n.t, err)
}

// criDockerd is the cri-dockerd of the node, running or not.
func (n *node) criDockerd() peers.CRIDockerdServer {
	return peers.CRIDockerdServer{
		Env: n.env, Program: n.programs.CRIDockerd, Dir: n.path("cri-dockerd"), Networks: n.adapter.CNIConfDir,
	}
}

// migrateFlags make criadapter take over the pods of cri-dockerd.
func (n *node) migrateFlags() []string {
	peer := n.criDockerd()
	return []string{"--migrate-root-directories=" + peer.Root(), "--migrate-cni-cache-dirs=" + peer.CNICache()}
}

// onCRIDockerd makes cri-dockerd the node's server.
func (n *node) onCRIDockerd() {
	n.t.Helper()
	var err error
	n.peer, err = n.criDockerd().Start("--ipv6-dual-stack")
	testutil.Must(n.t, err)
	n.connect(n.criDockerd().Endpoint())
	n.startKubelet(n.criDockerd().Endpoint())
}

// onCriadapter makes criadapter the node's server.
func (n *node) onCriadapter() {
	n.t.Helper()
	testutil.Must(n.t, n.adapter.Start(n.t.Context()))
	n.connect(n.adapter.Endpoint)
	n.startKubelet(n.adapter.Endpoint)
}

// connect waits until the server answers.
func (n *node) connect(socket string) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, "the CRI server is ready", func() error {
		if n.cri != nil {
			_ = n.cri.Close(n.t.Context()) // the client of an earlier attempt or server
		}
		var err error
		if n.cri, err = cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(socket).WithConnectionTimeout(patience).
			Build(n.t.Context()); err != nil {
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

// stopKubelet and stopServer end the programs. Pods run on.
func (n *node) stopKubelet() {
	n.t.Helper()
	if n.kubelet == nil {
		return
	}
	testutil.Check(n.t, n.kubelet.Stop(context.WithoutCancel(n.t.Context())))
	n.kubelet = nil
}

func (n *node) stopServer() {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context())
	if n.peer != nil {
		testutil.Check(n.t, n.peer.Stop(ctx))
		n.peer = nil
	}
	testutil.Check(n.t, n.adapter.Stop(ctx))
}

func (n *node) startKubelet(socket string) {
	n.t.Helper()
	program, args := n.programs.KubeletCore, n.coreArgs(socket)
	if n.programs.Kubelet != "" {
		program, args = n.programs.Kubelet, n.realArgs(socket)
	}
	var err error
	n.kubelet, err = process.Start(n.path("kubelet.log"), nil, program, args...)
	testutil.Must(n.t, err)
}

func (n *node) coreArgs(socket string) []string {
	return []string{
		"run", "--manifests", n.manifests(), "--container-runtime-endpoint", socket, "--hostname-override", "node",
		"--cgroup-root", filepath.Join(n.env.Cgroup(), "pods"), "--cgroup-driver", "cgroupfs",
		"--root-dir", n.path("kubelet"), "--pod-logs-dir", n.logs(), "--read-address", "127.0.0.1:0", "--node-ip",
		"127.0.0.1",
		"--crash-backoff", "1s", "--retry", "1s", "--housekeeping", "500ms", "--container-gc-period", "2s",
		"--image-gc-high-threshold", "100", "--eviction-hard", realkubelet.CoreEviction(""),
		"--log-level", "debug",
	}
}

// clean removes the remaining pods through the running server. If no server runs, clean starts criadapter.
func (n *node) clean() {
	n.stopKubelet()
	if n.t.Failed() {
		for _, path := range []string{n.path("kubelet.log"), n.criDockerd().LogPath()} {
			n.t.Logf("the end of %s:\n%s", filepath.Base(path), logtail.Read(path, 6<<10))
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
		testutil.Check(n.t, adapter.RemovePods(ctx, n.cri, nil))
	}
	if n.peer != nil {
		testutil.Check(n.t, n.peer.Stop(ctx))
	}
	testutil.Check(n.t, program.UnmountBelow(n.path("kubelet")))
}

// write puts a manifest into the kubelet's directory in one step. In the spec, SHELL stands for the image with busybox,
// and HOST for a directory of the node. LINES stands for a command that writes ten numbered lines a second.
func (n *node) write(name string, pod manifest) {
	n.t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop, uid: " + pod.uid +
		"}\nspec:\n  terminationGracePeriodSeconds: 1" + pod.spec
	text = strings.NewReplacer("SHELL", n.env.Image(shell), "HOST", n.path("host"),
		"LINES", `[sh, -c, "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.1; done"]`).Replace(text)
	fresh := n.path(name + ".new")
	testutil.WriteFile(n.t, fresh, text)
	testutil.Must(n.t, os.Rename(fresh, filepath.Join(n.manifests(), name+".yaml")))
}

// exec runs a command in a container.
func (n *node) exec(id string, command ...string) (string, error) {
	stdout, stderr, err := n.cri.ExecSync(n.t.Context(), id, command, patience)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, stderr)
	}
	return string(stdout), nil
}
