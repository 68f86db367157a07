package controlplane

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// nodeLink is the bridge that has the address. An API server does not advertise loopback addresses, and the bridge
// leads nowhere.
type nodeLink struct{ link netlink.Link }

// addNodeLink makes the bridge. It is no dummy device, because some kernels lack that type.
func addNodeLink(name, ip string) (*nodeLink, error) {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	address, err := netlink.ParseAddr(ip + "/24")
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("add the bridge %s: %w", bridge.Name, err)
	}
	n := &nodeLink{link: bridge}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		_ = n.remove() // the first error matters
		return nil, fmt.Errorf("give %s the address %s: %w", bridge.Name, ip, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		_ = n.remove() // the first error matters
		return nil, fmt.Errorf("set %s up: %w", bridge.Name, err)
	}
	return n, nil
}

func (n *nodeLink) remove() error {
	if err := netlink.LinkDel(n.link); err != nil {
		return fmt.Errorf("remove the bridge %s: %w", n.link.Attrs().Name, err)
	}
	return nil
}
