package main

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/debian/machine"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// The runtimes of the second node.
const (
	runtimeCriadapter = "criadapter"
	runtimeContainerd = "containerd"
)

// node is one of the two nodes of the cluster.
type node struct {
	name string
	// ip is the node's address in a network.
	ip func(network) string
	// engine is a name for engine.Named, and socket the address of the CRI server.
	engine, socket string
}

// criadapterSocket and containerdSocket are the addresses of the CRI servers.
const (
	criadapterSocket = "unix:///run/criadapter/criadapter.sock"
	containerdSocket = "unix:///run/containerd/containerd.sock"
)

// newest is the engine of the second node, a name for engine.Named.
const newest = "29-containerd"

// nodes returns the nodes. The first one has Debian's engine and the control plane.
func (p plan) nodes() []node {
	second := node{name: "node2", ip: func(n network) string { return n.node2 }, engine: newest,
		socket: criadapterSocket}
	if p.Node2 == runtimeContainerd {
		second.socket = containerdSocket
	}
	first := node{name: "node1", ip: func(n network) string { return n.node1 }, engine: engine.Installed,
		socket: criadapterSocket}
	return []node{first, second}
}

// engineSettings are the settings in daemon.json that every engine gets, beside its storage driver.
func engineSettings() map[string]any {
	return map[string]any{"insecure-registries": []string{registryAddress}}
}

//go:embed kubelet.service
var kubeletUnit string

//go:embed containerd.sh
var containerdScript string

// install makes a booted machine a node that waits for kubeadm. It configures the network before it installs anything.
func (n node) install(ctx context.Context, m *machine.Machine, networks []network) error {
	first := networks[0]
	if _, err := m.Shell(ctx, `
		hostname `+n.name+`
		echo `+n.name+` > /etc/hostname
		echo nameserver `+first.keeper+` > /etc/resolv.conf
		printf '%s\n' '127.0.0.1 localhost' '::1 localhost' '`+first.node1+` node1' '`+first.node2+` node2' \
			'`+first.keeper+` `+registryHost+`' > /etc/hosts
		echo KUBELET_EXTRA_ARGS=--node-ip=`+each(networks, n.ip)+` > /etc/default/kubelet
		`+configure(networks, n.ip)+`
		mkdir -p /opt/cni /etc/cni/net.d /etc/kubernetes/manifests /lib/modules
		cp -r /mnt/plugins /opt/cni/bin
		install /mnt/bin/* /usr/bin
		install /mnt/crictl /usr/bin
		printf '%s\n' 'runtime-endpoint: `+n.socket+`' 'timeout: 30' > /etc/crictl.yaml`+
		debian.ConfigureEngine("/mnt/"+n.name)+`
		cp /mnt/runc /usr/local/sbin/runc`); err != nil {
		return err
	}
	if err := n.installServer(ctx, m); err != nil {
		return err
	}
	_, err := m.Run(ctx, append(debian.Script(`
		printf %s "$0" > /etc/systemd/system/kubelet.service
		systemctl daemon-reload
		systemctl enable kubelet`), kubeletUnit)...)
	return err
}

// installServer installs the CRI server.
func (n node) installServer(ctx context.Context, m *machine.Machine) error {
	if n.socket == containerdSocket {
		_, err := m.Run(ctx, append(debian.Script(containerdScript), registryAddress)...)
		return err
	}
	_, err := m.Shell(ctx, fmt.Sprintf(`
		dpkg --install /mnt/%s/criadapter_%[1]s_%s.deb
		systemctl is-active criadapter.socket criadapter.service
		crictl version | grep -x 'RuntimeName: *docker'`, version, runtime.GOARCH))
	return err
}
