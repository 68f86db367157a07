package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// resync is the period in which a kubelet syncs each pod, and so refreshes its volumes. The default minute would take
// most of the test's time.
const resync = "10s"

// node is a criadapter with a kubelet of either kind.
type node struct {
	world  *world
	server *adapter.Server
	// name is the node's name. The others are directories: manifests for static pods, root for the kubelet, logs for
	// container logs.
	name, manifests, root, logs string
	// cgroup is the parent of all pods' cgroups. The rig removes it.
	cgroup string
	// nri is the socket for NRI plugins.
	nri string
	// kubeconfig, serving and configFile are files for the kubelet.
	kubeconfig string
	serving    controlplane.Pair
	configFile string
	// settings are the kubelet's settings for the current step.
	settings settings

	process *process.Process
}

// settings are a kubelet's settings for one step.
type settings struct {
	// flags are for the kubelet core. config has lines of the real kubelet's configuration with the same effect.
	flags  []string
	config string
	// diskLeft is the free part of the disk below which both kubelets evict pods, such as "20%". Empty means 1%, since
	// other programs use the machine's disk, too.
	diskLeft string
	// environ are variables, NAME=value.
	environ []string
}

// newNode makes the directories and files of a node, and starts its criadapter. It does not start the kubelet.
func newNode(t *testing.T, w *world) *node {
	t.Helper()
	nri := filepath.Join(w.env.WorkDir, "nri-"+string(w.kind))
	n := &node{world: w, server: adapter.ForTest(t, adapter.Options{Env: w.env, Flags: adapter.NRIFlags(nri)}),
		name: "node-" + string(w.kind), nri: filepath.Join(nri, "nri.sock")}
	dir := n.server.Dir
	n.manifests, n.root, n.logs = filepath.Join(dir, "manifests"), filepath.Join(dir, "kubelet"), filepath.Join(dir,
		"logs")
	n.cgroup = filepath.Join(w.env.Cgroup(), n.name)
	n.configFile = filepath.Join(dir, "kubelet.yaml")
	for _, path := range []string{n.manifests, n.root, n.logs, filepath.Join(dir, "volumeplugins")} {
		testutil.Must(t, os.Mkdir(path, 0o755))
	}
	mountRoot(t, n.root)
	var err error
	n.kubeconfig, err = w.plane.Kubeconfig("system:node:"+n.name, "system:nodes")
	testutil.Must(t, err)
	n.serving, err = w.plane.Authority.Server(n.name, n.name, w.plane.Address)
	testutil.Must(t, err)
	if w.kind == realKubelet {
		n.prepareReal(t)
	}
	t.Cleanup(func() { n.clean(t) })
	return n
}

// start starts the kubelet. It does not wait until the node is ready.
func (n *node) start(t *testing.T) {
	t.Helper()
	program, args := n.world.programs.Kubelet, n.realArgs()
	if n.world.kind == kubeletCore {
		program, args = n.world.programs.KubeletCore, append(n.coreArgs(), n.settings.flags...)
	} else {
		n.writeConfig(t)
	}
	var err error
	n.process, err = process.Start(n.logFile(), n.settings.environ, program, args...)
	testutil.Must(t, err)
}

// restart ends the kubelet and starts it with other settings.
func (n *node) restart(t *testing.T, other settings) {
	t.Helper()
	testutil.Must(t, n.process.Stop(context.Background()))
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
		"--sync-frequency", resync, "--read-address", "127.0.0.1:0", "--beside-kubelet", "--image-gc-high-threshold",
		"100", "--eviction-hard", realkubelet.CoreEviction(n.settings.diskLeft),
		"--log-level", "debug",
	}
}

func (n *node) realArgs() []string {
	return []string{
		"--kubeconfig", n.kubeconfig, "--hostname-override", n.name, "--node-ip", n.world.plane.Address,
		"--config", n.configFile, "--root-dir", n.root, "--cert-dir", filepath.Join(n.root, "pki"), "--v", "2",
	}
}

// clean ends the kubelet and removes the pods that are left.
func (n *node) clean(t *testing.T) {
	if n.process != nil {
		testutil.Check(t, n.process.Stop(context.Background()))
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", n.world.kind, n.process.LogTail())
		}
	}
	testutil.Check(t, n.world.keepLogs(n.server.Dir))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n.server.PID() == 0 {
		if err := n.server.Start(ctx); err != nil {
			t.Error(err)
			return
		}
	}
	testutil.Check(t, adapter.RemovePods(ctx, n.server.Runtime, nil))
	testutil.Check(t, program.UnmountBelow(n.root))
}

// prepareReal makes the cgroups of the real kubelet, and keeps it away from the machine's own directories.
func (n *node) prepareReal(t *testing.T) {
	t.Helper()
	testutil.Must(t, realkubelet.MakeCgroups(n.cgroup))
	uncover, err := realkubelet.CoverMachine()
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, uncover())
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
	testutil.Must(t, config.Write(n.configFile))
}

// restartServer ends criadapter as a crash would and starts it again.
func (n *node) restartServer(ctx context.Context) error {
	n.server.Kill()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.server.Start(ctx)
}
