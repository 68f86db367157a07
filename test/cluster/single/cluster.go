// Package single runs a cluster of one node for test programs: a control plane, a CRI server and a kubelet. It must be
// called in the test rig, which AgainInRig of package test/cluster/machine enters. Only one cluster may run at a time.
package single

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// NodeName is the name of the only node.
const NodeName = "node"

// readyTimeout bounds the time until the node takes pods; ten seconds are usual.
const readyTimeout = 2 * time.Minute

// Options say what to run. Env, Programs, Server and ReportDir are required.
type Options struct {
	Env      rigenv.Env
	Programs build.Programs
	// Node is the program that runs the node's pods, one of Nodes. Empty means the real kubelet.
	Node string
	// Server is the name of the CRI server, one of Servers.
	Server string
	// ReportDir gets the logs of all programs.
	ReportDir string
	// MaxPods is how many pods the node takes. 0 means the kubelet's default.
	MaxPods int
	// KubeletConfig are further lines of the real kubelet's configuration file.
	KubeletConfig string
	// Flags are further flags of criadapter.
	Flags []string
	// WithoutAdmission are admission plugins that the API server leaves out.
	WithoutAdmission []string
	// Disk is the size of each of Disks in bytes. With 0 there are none.
	Disk int64
}

// Cluster is a running cluster.
type Cluster struct {
	Plane *controlplane.ControlPlane
	// KubeletRoot is the kubelet's own directory, PodLogs the directory of container logs.
	KubeletRoot, PodLogs string
	// Server is the CRI server.
	Server Server

	opts    Options
	dir     string
	kubelet *process.Process
	// launch starts the kubelet.
	launch func() (*process.Process, error)
	// callsBefore counts the calls to the server before the kubelet's first one.
	callsBefore map[string]int
	undo        []func() error // in the order of the steps that they undo
}

// Start brings a cluster up and returns when its node takes pods. Close must be called unless there is an error.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	c := &Cluster{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.dir, err = os.MkdirTemp(opts.Env.WorkDir, "cluster"); err != nil {
		return nil, err
	}
	// Users in containers need access to the volumes below it.
	if err := os.Chmod(c.dir, 0o755); err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() error { return os.RemoveAll(c.dir) }, c.keepLogs)
	for _, start := range []func(context.Context) error{c.startPlane, c.startServer, c.startNode, c.awaitNode} {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// path makes a new directory in the cluster's directory.
func (c *Cluster) path(name string) (string, error) {
	path := filepath.Join(c.dir, name)
	return path, os.Mkdir(path, 0o755)
}

func (c *Cluster) startPlane(ctx context.Context) error {
	dir, err := c.path("plane")
	if err != nil {
		return err
	}
	if c.Plane, err = controlplane.Start(ctx, controlplane.Options{
		Programs: c.opts.Programs, Dir: dir, WithoutAdmission: c.opts.WithoutAdmission,
	}); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return errors.Join(c.Plane.Failure(), c.Plane.Stop()) })
	return nil
}

func (c *Cluster) startServer(ctx context.Context) error {
	dir, err := c.path("server")
	if err != nil {
		return err
	}
	if c.Server, err = startServer(ctx, c.opts, dir); err != nil {
		return err
	}
	c.undo = append(c.undo, c.stopServer)
	return nil
}

func (c *Cluster) awaitNode(ctx context.Context) error {
	if err := c.Plane.AwaitNode(ctx, NodeName, readyTimeout); err != nil {
		return fmt.Errorf("%w; the end of the kubelet's log:\n%s", err, c.kubelet.LogTail())
	}
	return nil
}

// MakeNamespace makes a namespace and waits for the objects that controllers put into it.
func (c *Cluster) MakeNamespace(ctx context.Context, name string) error {
	if _, err := c.Plane.Kubectl(ctx, "create", "namespace", name); err != nil {
		return err
	}
	for _, object := range []string{"serviceaccount/default", "configmap/kube-root-ca.crt"} {
		if _, err := c.Plane.Kubectl(ctx, "wait", "--namespace", name, "--for=create", object,
			"--timeout=60s"); err != nil {
			return err
		}
	}
	return nil
}

// stopServer removes all pods, and ends the server. Close calls it, when the caller's context may have ended.
func (c *Cluster) stopServer() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return errors.Join(c.Server.removePods(ctx), c.Server.stop(ctx))
}

// keepLogs copies the logs of all programs to the report's directory.
func (c *Cluster) keepLogs() error {
	return program.KeepFiles(c.opts.ReportDir, c.dir, "*.log", "plane/logs/*.log", "server/*.log")
}

// Close ends all programs, removes what pods have left behind and keeps the logs.
func (c *Cluster) Close() error { return program.Undo(c.undo) }
