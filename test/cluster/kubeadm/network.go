package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/criadapter/criadapter/test/debian/machine"
)

// bridgeName is the bridge that connects the nodes, in the keeper's network namespace.
const bridgeName = "cluster0"

// makeNetwork makes the bridge with the keeper's address.
func makeNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add the bridge %s: %w", bridgeName, err)
	}
	address, err := netlink.ParseAddr(keeperIP + network)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		return fmt.Errorf("give %s the address %s: %w", bridgeName, keeperIP, err)
	}
	return netlink.LinkSetUp(bridge)
}

// connect gives a machine the device eth0, whose other end is on the bridge.
func connect(name string, m *machine.Machine) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: bridge.Attrs().Index},
		PeerName: "eth0", PeerNamespace: netlink.NsPid(m.PID())}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("connect %s: %w", name, err)
	}
	return netlink.LinkSetUp(pair)
}

// forward passes connections of the listener, which is of the host's namespace, on to an address of this one, until ctx
// ends. It closes the listener and all connections then.
func forward(ctx context.Context, listener net.Listener, to string) {
	var all sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		from, err := listener.Accept()
		if err != nil {
			break
		}
		all.Go(func() { passOn(ctx, from, to) })
	}
	all.Wait()
}

func passOn(ctx context.Context, from net.Conn, to string) {
	defer from.Close()
	target, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return // the client sees the end of its connection
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { from.Close(); target.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, target}, {target, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[1], pair[0]) // a connection that breaks ends both
			if tcp, ok := pair[1].(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
		})
	}
	both.Wait()
}
