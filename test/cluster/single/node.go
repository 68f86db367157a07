package single

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
)

// The programs that can run a node's pods.
const (
	Kubelet     = "kubelet"
	KubeletCore = "kubelet-core"
)

// Nodes returns all names. The first one is the default.
func Nodes() []string { return []string{Kubelet, KubeletCore} }

// resync is the period in which the kubelet syncs each pod.
const resync = "1m"

// node has the settings of a kubelet of either kind.
type node struct {
	// Directories: root for the kubelet, manifests for static pods, logs for container logs. plugins is empty.
	root, manifests, logs, plugins string
	credentials                    string
	serving                        controlplane.Pair
}

// startNode starts the kubelet. It does not wait until the node is ready.
func (c *Cluster) startNode(ctx context.Context) error {
	n, err := c.newNode()
	if err != nil {
		return err
	}
	c.KubeletRoot, c.PodLogs = n.root, n.logs
	for _, dir := range []string{n.root, n.logs} {
		unmount, err := mountDisk(dir, c.opts.Disk)
		if err != nil {
			return err
		}
		c.undo = append(c.undo, unmount)
	}
	if c.callsBefore, err = c.Calls(ctx); err != nil {
		return err
	}
	switch c.opts.Node {
	case "", Kubelet:
		return c.startKubelet(n)
	case KubeletCore:
		return c.startKubeletCore(n)
	}
	return fmt.Errorf("no node is named %q: want one of %s", c.opts.Node, strings.Join(Nodes(), ", "))
}

func (c *Cluster) newNode() (n node, err error) {
	for name, path := range map[string]*string{"kubelet": &n.root, "manifests": &n.manifests, "logs": &n.logs,
		"volumeplugins": &n.plugins} {
		if *path, err = c.path(name); err != nil {
			return n, err
		}
	}
	if n.credentials, err = c.Plane.Kubeconfig("system:node:"+NodeName, "system:nodes"); err != nil {
		return n, err
	}
	n.serving, err = c.Plane.Authority.Server(NodeName, NodeName, c.Plane.Address)
	return n, err
}

// startKubelet starts the real kubelet.
func (c *Cluster) startKubelet(n node) error {
	uncover, err := realkubelet.CoverMachine()
	if err != nil {
		return err
	}
	c.undo = append(c.undo, uncover)
	config := realkubelet.Config{
		Endpoint: c.Server.Endpoint, Manifests: n.manifests, PodLogs: n.logs, VolumePlugins: n.plugins,
		Cgroup:  c.Cgroup(),
		Address: c.Plane.Address, Serving: n.serving, CAFile: c.Plane.Authority.CAFile, Resync: resync,
		More: c.opts.KubeletConfig,
	}
	if c.opts.MaxPods > 0 {
		config.More += fmt.Sprintf("maxPods: %d\n", c.opts.MaxPods)
	}
	configFile := filepath.Join(c.dir, "kubelet.yaml")
	if err := errors.Join(config.Write(configFile), realkubelet.MakeCgroups(c.Cgroup())); err != nil {
		return err
	}
	return c.run(Kubelet, c.opts.Programs.Kubelet,
		"--kubeconfig", n.credentials, "--hostname-override", NodeName, "--node-ip", c.Plane.Address,
		"--config", configFile, "--root-dir", n.root, "--cert-dir", filepath.Join(n.root, "pki"), "--v", "2")
}

// startKubeletCore starts the kubelet core with the real kubelet's settings, as far as the kubelet core has them.
func (c *Cluster) startKubeletCore(n node) error {
	if c.opts.Programs.KubeletCore == "" {
		return errors.New("the kubelet core was not built")
	}
	args := []string{
		"run", "--kubeconfig", n.credentials, "--hostname-override", NodeName, "--node-ip", c.Plane.Address,
		"--container-runtime-endpoint", c.Server.Endpoint, "--manifests", n.manifests,
		"--root-dir", n.root, "--pod-logs-dir", n.logs, "--cgroup-root", c.Cgroup(),
		"--address", c.Plane.Address, "--client-ca-file", c.Plane.Authority.CAFile,
		"--tls-cert-file", n.serving.CertFile, "--tls-private-key-file", n.serving.KeyFile,
		"--sync-frequency", resync, "--read-address", "127.0.0.1:0", "--beside-kubelet",
		"--image-gc-high-threshold", "100", "--eviction-hard", realkubelet.CoreEviction("")}
	if c.opts.MaxPods > 0 {
		args = append(args, fmt.Sprintf("--max-pods=%d", c.opts.MaxPods))
	}
	return c.run(KubeletCore, c.opts.Programs.KubeletCore, args...)
}

// run starts a kubelet. Close will unmount what the kubelet has mounted for pods.
func (c *Cluster) run(name, path string, args ...string) (err error) {
	c.undo = append(c.undo, func() error { return program.UnmountBelow(c.KubeletRoot) })
	c.launch = func() (*process.Process, error) {
		return process.Start(filepath.Join(c.dir, name+".log"), nil, path, args...)
	}
	if err := c.LaunchKubelet(); err != nil {
		return err
	}
	// Close may run after the caller's context has ended.
	c.undo = append(c.undo, func() error { return c.kubelet.Stop(context.Background()) })
	return nil
}

// LaunchKubelet starts the kubelet again after Kubelet().Kill, and does not wait for its node.
func (c *Cluster) LaunchKubelet() (err error) {
	c.kubelet, err = c.launch()
	return err
}

// Cgroup is the parent of all pods' cgroups. The rig removes it at the end.
func (c *Cluster) Cgroup() string {
	return filepath.Join(c.opts.Env.Cgroup(), NodeName)
}

// Kubelet is the process that runs the node's pods.
func (c *Cluster) Kubelet() *process.Process { return c.kubelet }
