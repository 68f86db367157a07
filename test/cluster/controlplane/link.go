package controlplane

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// nodeLink is the bridge that holds the address: neither loopback, which an API server does not advertise, nor a way
// out.
type nodeLink struct{ link netlink.Link }

// addNodeLink makes the bridge. A kernel need not have the dummy device type; an empty bridge does the same.
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
