// Package netdevice makes the devices of the network namespaces of tests.
package netdevice

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bridge is a bridge with addresses. It leads nowhere until devices join it.
type Bridge struct{ link netlink.Link }

// AddBridge makes a bridge with addresses, each with the length of its prefix. An API server can advertise a bridge's
// address, but no loopback address. A dummy device would do, too, but some kernels lack that type. An IPv6 address can
// be used at once, because duplicate address detection is off.
func AddBridge(name string, addresses ...string) (*Bridge, error) {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("add the bridge %s: %w", name, err)
	}
	b := &Bridge{link: link}
	if err := b.setUp(addresses); err != nil {
		_ = b.Remove() // the first error matters
		return nil, fmt.Errorf("the bridge %s: %w", name, err)
	}
	return b, nil
}

func (b *Bridge) setUp(addresses []string) error {
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if address.IP.To4() == nil {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(b.link, address); err != nil {
			return fmt.Errorf("add %s: %w", text, err)
		}
	}
	return netlink.LinkSetUp(b.link)
}

// Connect makes a veth pair. One end is on the bridge and is called name. The other end is in the network namespace of
// process pid and is called device. Only the first end is brought up.
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

// RemoveBridge removes the bridge of that name, if it exists.
func RemoveBridge(name string) error {
	var missing netlink.LinkNotFoundError
	link, err := netlink.LinkByName(name)
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the bridge %s: %w", name, err)
	}
	return (&Bridge{link}).Remove()
}

// RaiseLoopback brings up the loopback device of a new network namespace.
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
