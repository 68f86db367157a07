// Package netdevice makes the devices of the network namespaces of tests.
package netdevice

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Bridge is a bridge with an address. It leads nowhere until devices join it.
type Bridge struct{ link netlink.Link }

// AddBridge makes a bridge with an address of a network with 24 bits. An API server does not advertise loopback
// addresses, but it advertises a bridge's. It is no dummy device, because some kernels lack that type.
func AddBridge(name, ip string) (*Bridge, error) {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	address, err := netlink.ParseAddr(ip + "/24")
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("add the bridge %s: %w", name, err)
	}
	b := &Bridge{link: link}
	if err := netlink.AddrAdd(link, address); err != nil {
		_ = b.Remove() // the first error matters
		return nil, fmt.Errorf("give %s the address %s: %w", name, ip, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		_ = b.Remove() // the first error matters
		return nil, fmt.Errorf("set %s up: %w", name, err)
	}
	return b, nil
}

// Connect gives the network namespace of a process a device. Its other end, of another name, is on the bridge.
func (b *Bridge) Connect(name string, pid int, device string) error {
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: b.link.Attrs().Index},
		PeerName: device, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("connect %s: %w", name, err)
	}
	return netlink.LinkSetUp(pair)
}

// Remove removes the bridge.
func (b *Bridge) Remove() error {
	if err := netlink.LinkDel(b.link); err != nil {
		return fmt.Errorf("remove the bridge %s: %w", b.link.Attrs().Name, err)
	}
	return nil
}

// RaiseLoopback sets the loopback device of a new network namespace up.
func RaiseLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}
