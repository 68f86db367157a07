// Package emulated runs a cluster whose only node is an emulated machine, with systemd's cgroup driver, cgroup v2 and
// AppArmor (package test/vm/machine). The control plane runs outside of the machine, at full speed. Start must be
// called in the test rig. Only one cluster may run at a time, because the machine's address is in the rig's network
// namespace.
package emulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/vm/machine"
	"github.com/criadapter/criadapter/test/vm/node"
)

// readyTimeout bounds the time until the node takes pods.
const readyTimeout = 20 * time.Minute

// Options say what to run. All but KubeletConfig are required. Programs.Share must have been filled by FillShare.
type Options struct {
	Env      rigenv.Env
	Programs build.Programs
	// ReportDir gets the logs of all programs.
	ReportDir string
	// KubeletConfig are further lines of the kubelet's configuration file.
	KubeletConfig string
}

// Cluster is a running cluster. Close must be called.
type Cluster struct {
	Plane   *controlplane.ControlPlane
	Machine *machine.Machine

	opts Options
	dir  string
	undo []func() error // in the order of the steps that they undo
}

// FillShare fills the directory that the machine sees at /mnt. It needs the network, unlike Start.
func FillShare(ctx context.Context, programs build.Programs) error {
	if _, err := machine.AppArmor().Image(ctx); err != nil {
		return err
	}
	if err := node.FillShare(ctx, machine.AppArmor(), programs.Share); err != nil {
		return err
	}
	return program.CopyFile(programs.Kubelet, filepath.Join(programs.Share, kubeletFiles, single.Kubelet))
}

// Start brings a cluster up and returns when its node takes pods.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	c := &Cluster{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.dir, err = os.MkdirTemp(opts.Env.WorkDir, "emulated"); err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() error { return os.RemoveAll(c.dir) })
	for _, start := range []func(context.Context) error{c.startPlane, c.startMachine, c.startKubelet, c.awaitNode} {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) startPlane(ctx context.Context) (err error) {
	dir := filepath.Join(c.dir, "plane")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return program.KeepFiles(c.opts.ReportDir, dir, "logs/*.log") })
	options := controlplane.Options{Programs: c.opts.Programs, Dir: dir}
	if c.Plane, err = controlplane.Start(ctx, options); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return errors.Join(c.Plane.Failure(), c.Plane.Stop()) })
	return nil
}

// startMachine starts the machine. The kubelet's port is reachable at the machine's address in the rig, and the API
// server's port at 127.0.0.1 on the machine.
func (c *Cluster) startMachine(ctx context.Context) error {
	if err := c.writeKubeletFiles(); err != nil {
		return err
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(machine.Address + "/32")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(loopback, address); err != nil {
		return fmt.Errorf("add the machine's address: %w", err)
	}
	c.undo = append(c.undo, func() error { return netlink.AddrDel(loopback, address) })
	dir := filepath.Join(c.dir, "machine")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	c.Machine, err = node.Start(ctx, machine.Options{Kind: machine.AppArmor(), Dir: dir, Share: c.opts.Programs.Share})
	if err != nil {
		return err
	}
	c.undo = append(c.undo, c.Machine.Close, c.keepJournal)
	return errors.Join(c.Machine.Listen(ctx, apiPort, strings.TrimPrefix(c.Plane.URL, "https://")),
		c.Machine.Reach(ctx, net.JoinHostPort(machine.Address, kubeletPort)))
}

// Serve forwards a port of 127.0.0.1 on the machine to the same port of 127.0.0.1 in the rig.
func (c *Cluster) Serve(ctx context.Context, port int) error {
	return c.Machine.Listen(ctx, port, "127.0.0.1:"+strconv.Itoa(port))
}

func (c *Cluster) awaitNode(ctx context.Context) error {
	return c.Plane.AwaitNode(ctx, single.NodeName, readyTimeout)
}

// keepJournal copies the machine's log to the report's directory. Close calls it, when the caller's context may have
// ended.
func (c *Cluster) keepJournal() error {
	text, err := c.Machine.Run(context.Background(), "journalctl", "--no-pager", "-b")
	return errors.Join(err, os.WriteFile(filepath.Join(c.opts.ReportDir, "journal.log"), []byte(text), 0o644))
}

// Close ends the machine and the control plane, and keeps the logs.
func (c *Cluster) Close() error { return program.Undo(c.undo) }
