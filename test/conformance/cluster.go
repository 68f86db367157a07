package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
	"github.com/criadapter/criadapter/test/cluster/emulated"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/vm/node"
)

// machineNode is the kind of node that is an emulated machine with the real kubelet.
const machineNode = "vm"

// nodeNames returns all kinds of nodes. The first one is the default.
func nodeNames() []string { return append(single.Nodes(), machineNode) }

// cluster is the cluster that the specs run on.
type cluster struct {
	plane *controlplane.ControlPlane
	// kubeletRoot is the kubelet's directory, and endpoint the CRI server's address, both on the node.
	kubeletRoot, endpoint string
	// calls counts the calls to the CRI server. It returns nil if they are not counted.
	calls func(context.Context) (map[string]int, error)
	// expected returns the groups of specs that apply to the node.
	expected func(context.Context, report.Expected) (report.Expected, error)
	close    func() error
}

// startCluster starts the cluster that the options name. Its node can pull from registry, a host:port of 127.0.0.1.
func (o options) startCluster(
	ctx context.Context, env rigenv.Env, programs build.Programs, chosen set, dir, registry string,
) (cluster, error) {
	if o.node == machineNode {
		return startEmulated(ctx, emulated.Options{
			Env: env, Programs: programs, ReportDir: dir, KubeletConfig: chosen.kubelet,
		}, registry)
	}
	c, err := single.Start(ctx, single.Options{
		Env: env, Programs: programs, Node: o.node, Server: o.server, ReportDir: dir, KubeletConfig: chosen.kubelet,
		WithoutAdmission: chosen.withoutAdmission(),
	})
	if err != nil {
		return cluster{}, err
	}
	return cluster{
		plane: c.Plane, kubeletRoot: c.KubeletRoot, endpoint: c.Server.Endpoint, calls: c.Calls, close: c.Close,
		expected: func(ctx context.Context, all report.Expected) (report.Expected, error) {
			on, _, err := all.OnRig(ctx, env)
			return on, err
		},
	}, nil
}

// startEmulated starts a cluster whose node is an emulated machine.
func startEmulated(ctx context.Context, opts emulated.Options, registry string) (cluster, error) {
	c, err := emulated.Start(ctx, opts)
	if err != nil {
		return cluster{}, err
	}
	if err := serve(ctx, c, registry); err != nil {
		return cluster{}, errors.Join(err, c.Close())
	}
	return cluster{
		plane: c.Plane, kubeletRoot: emulated.KubeletRoot, endpoint: emulated.Endpoint, close: c.Close,
		calls: func(context.Context) (map[string]int, error) { return nil, nil },
		expected: func(ctx context.Context, all report.Expected) (report.Expected, error) {
			features, machine, err := node.Features(ctx, c.Machine)
			fmt.Printf("the node has Docker Engine %s, API %s, %s, cgroup v%d, driver %s, AppArmor %t\n",
				features.ServerVersion,
				features.APIVersion, features.StorageDriver, features.CgroupVersion, features.CgroupDriver,
				features.AppArmor)
			return all.On(features, machine), err
		},
	}, nil
}

// serve makes the registry reachable from the node, at the same address.
func serve(ctx context.Context, c *emulated.Cluster, registry string) error {
	address, err := netip.ParseAddrPort(registry)
	if err != nil {
		return err
	}
	return c.Serve(ctx, int(address.Port()))
}
