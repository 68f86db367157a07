package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// resync is how often a kubelet looks at a pod without reason, and so refreshes its volumes. The usual minute would be
// most of the test's time.
const resync = "10s"

// node is a criadapter and a kubelet of either kind on it.
type node struct {
	world  *world
	server *adapter.Server
	// name is the node's; manifests is the directory of static pods; root is the kubelet's own; logs that of container logs.
	name, manifests, root, logs string
	// cgroup is the cgroup below which those of pods are; the rig removes it.
	cgroup string
	// kubeconfig, serving and configFile are given to the kubelet.
	kubeconfig string
	serving    controlplane.Pair
	configFile string
	// settings are those of the kubelet that differ from start to start.
	settings settings

	process *controlplane.Process
}

// settings are what a kubelet is started with for one step.
type settings struct {
	// flags are the kubelet core's, config are lines of the real kubelet's configuration, for the same.
	flags            []string
	config, diskLeft string
	// environ are variables, NAME=value.
	environ []string
}

// newNode makes what a node needs and starts its criadapter, not the kubelet.
func newNode(t *testing.T, w *world) *node {
	t.Helper()
	n := &node{world: w, server: adapter.ForTest(t, adapter.Options{Env: w.env}), name: "node-" + string(w.kind)}
	dir := n.server.Dir
	n.manifests, n.root, n.logs = filepath.Join(dir, "manifests"), filepath.Join(dir, "kubelet"), filepath.Join(dir, "logs")
	n.cgroup = filepath.Join(w.env.Cgroup(), n.name)
	n.configFile = filepath.Join(dir, "kubelet.yaml")
	for _, path := range []string{n.manifests, n.root, n.logs, filepath.Join(dir, "volumeplugins")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mountRoot(t, n.root)
	var err error
	if n.kubeconfig, err = w.plane.Kubeconfig("system:node:"+n.name, "system:nodes"); err != nil {
		t.Fatal(err)
	}
	if n.serving, err = w.plane.Authority.Server(n.name, n.name, w.plane.Address); err != nil {
		t.Fatal(err)
	}
	if w.kind == realKubelet {
		n.prepareReal(t)
	}
	t.Cleanup(func() { n.clean(t) })
	return n
}

// start runs the kubelet. It is up when the node's status says so.
func (n *node) start(t *testing.T) {
	t.Helper()
	program, args := n.world.programs.Kubelet, n.realArgs()
	if n.world.kind == kubeletCore {
		program, args = n.world.programs.KubeletCore, append(n.coreArgs(), n.settings.flags...)
	} else {
		n.writeConfig(t)
	}
	var err error
	n.process, err = controlplane.StartProcessWith(n.settings.environ, string(n.world.kind), n.logFile(), program, args...)
	if err != nil {
		t.Fatal(err)
	}
}

// restart ends the kubelet and starts it with other settings.
func (n *node) restart(t *testing.T, other settings) {
	t.Helper()
	if err := n.process.Stop(); err != nil {
		t.Fatal(err)
	}
	n.settings = other
	n.start(t)
}

func (n *node) logFile() string { return filepath.Join(n.server.Dir, string(n.world.kind)+".log") }

func (n *node) coreArgs() []string {
	return []string{
		"run", "--kubeconfig", n.kubeconfig, "--hostname-override", n.name, "--node-ip", n.world.plane.Address,
		"--container-runtime-endpoint", n.server.Endpoint, "--manifests", n.manifests,
		"--root-dir", n.root, "--pod-logs-dir", n.logs, "--cgroup-root", n.cgroup,
		"--address", n.world.plane.Address, "--client-ca-file", n.world.plane.Authority.CAFile,
		"--tls-cert-file", n.serving.CertFile, "--tls-private-key-file", n.serving.KeyFile,
		"--sync-frequency", resync, "--read-address", "127.0.0.1:0", "--beside-kubelet", "--image-gc-high-threshold", "100", "--log-level", "debug",
	}
}

func (n *node) realArgs() []string {
	return []string{
		"--kubeconfig", n.kubeconfig, "--hostname-override", n.name, "--node-ip", n.world.plane.Address,
		"--config", n.configFile, "--root-dir", n.root, "--cert-dir", filepath.Join(n.root, "pki"), "--v", "2",
	}
}

// clean ends the kubelet and removes what is left of its pods.
func (n *node) clean(t *testing.T) {
	if n.process != nil {
		if err := n.process.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", n.world.kind, n.process.LogTail())
		}
	}
	if err := n.world.keepLogs(n.server.Dir); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n.server.PID() == 0 {
		if err := n.server.Start(ctx); err != nil {
			t.Error(err)
			return
		}
	}
	sandboxes, err := n.server.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		t.Error(err)
	}
	for _, sandbox := range sandboxes {
		if err := errors.Join(n.server.Runtime.StopPodSandbox(ctx, sandbox.GetId()), n.server.Runtime.RemovePodSandbox(ctx, sandbox.GetId())); err != nil {
			t.Error(err)
		}
	}
	if err := realkubelet.UnmountBelow(n.root); err != nil {
		t.Error(err)
	}
}

// prepareReal makes what the real kubelet wants to find, and keeps it away from what is the machine's.
func (n *node) prepareReal(t *testing.T) {
	t.Helper()
	if err := realkubelet.MakeCgroups(n.cgroup); err != nil {
		t.Fatal(err)
	}
	uncover, err := realkubelet.CoverMachine()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := uncover(); err != nil {
			t.Error(err)
		}
	})
}

// writeConfig writes the real kubelet's configuration.
func (n *node) writeConfig(t *testing.T) {
	t.Helper()
	config := realkubelet.Config{
		Endpoint: n.server.Endpoint, Manifests: n.manifests, PodLogs: n.logs,
		VolumePlugins: filepath.Join(n.server.Dir, "volumeplugins"), Cgroup: n.cgroup,
		Address: n.world.plane.Address, Serving: n.serving, CAFile: n.world.plane.Authority.CAFile, Resync: resync,
		DiskLeft: n.settings.diskLeft, More: n.settings.config,
	}
	if err := config.Write(n.configFile); err != nil {
		t.Fatal(err)
	}
}

// restartServer ends criadapter as a crash would and starts it again.
func (n *node) restartServer(ctx context.Context) error {
	n.server.Kill()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.server.Start(ctx)
}
