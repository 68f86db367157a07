package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/cluster/controlplane"
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
	// flags are added to the kubelet's.
	flags []string

	process *controlplane.Process
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
		program, args = n.world.programs.KubeletCore, n.coreArgs()
	}
	var err error
	if n.process, err = controlplane.StartProcess(string(n.world.kind), n.logFile(), program, append(args, n.flags...)...); err != nil {
		t.Fatal(err)
	}
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
	if err := unmountBelow(n.root); err != nil {
		t.Error(err)
	}
}

// unmountBelow unmounts what a kubelet mounted in its directory for pods that nobody deleted.
func unmountBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[1]; strings.HasPrefix(point, dir+"/") {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
			}
		}
	}
	return errors.Join(errs...)
}

// prepareReal makes what the real kubelet wants to find, and keeps it away from what is the machine's.
func (n *node) prepareReal(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(n.configFile, []byte(n.realConfig()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := makeCgroups(n.cgroup); err != nil {
		t.Fatal(err)
	}
	// No setting moves its links to container logs, in /var/log/containers, nor its socket in /var/lib/kubelet.
	cover(t, "/var/log")
	cover(t, "/var/lib")
}

func (n *node) realConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
staticPodPath: %s
podLogsDir: %s
volumePluginDir: %s
cgroupRoot: /%s
address: %s
tlsCertFile: %s
tlsPrivateKeyFile: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
syncFrequency: %s
readOnlyPort: 0
healthzPort: 0
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
# Images cannot be pulled from where they came, and the disk is not the test's.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "1%%"}
`, n.server.Endpoint, n.manifests, n.logs, filepath.Join(n.server.Dir, "volumeplugins"), n.cgroup, n.world.plane.Address,
		n.serving.CertFile, n.serving.KeyFile, n.world.plane.Authority.CAFile, resync)
}

// cgroupMount is where the hierarchies are.
const cgroupMount = "/sys/fs/cgroup"

// makeCgroups makes a cgroup in every hierarchy: the real kubelet expects its root to exist. On cgroup v1 those with
// the cpuset controller must be told processors and memory nodes before they can hold anything.
func makeCgroups(path string) error {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return os.MkdirAll(filepath.Join(cgroupMount, path), 0o755)
	}
	hierarchies, err := os.ReadDir(cgroupMount)
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if !hierarchy.IsDir() { // cpu may be a link to cpu,cpuacct
			continue
		}
		dir := filepath.Join(cgroupMount, hierarchy.Name())
		for part := range strings.SplitSeq(path, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := inheritCpuset(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func inheritCpuset(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of another hierarchy
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(value)) != "" {
			continue
		}
		if value, err = os.ReadFile(filepath.Join(parent, name)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cover mounts an empty directory over dir for the time of the test, which runs in a mount namespace of its own.
func cover(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// restartServer ends criadapter as a crash would and starts it again.
func (n *node) restartServer(ctx context.Context) error {
	n.server.Kill()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.server.Start(ctx)
}
