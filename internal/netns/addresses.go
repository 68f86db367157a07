package netns

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// podInterface is the usual name of a pod's interface. Without an interface of this name, the first one with addresses
// counts.
const podInterface = "eth0"

// podPinPrefix begins the name of a pod's pin. The first podPinID characters of the pod's id follow.
const (
	podPinPrefix = "criadapter-"
	podPinID     = 32
)

// PodPin returns the path of a pod's pin in dir, or in DefaultDir when dir is empty.
func PodPin(dir, sandboxID string) string {
	return filepath.Join(cmp.Or(dir, DefaultDir), podPinPrefix+sandboxID[:min(len(sandboxID), podPinID)])
}

// PodOfPin returns the beginning of the pod's id in the file name of a pin. ok is false for other files.
func PodOfPin(name string) (idPrefix string, ok bool) { return strings.CutPrefix(name, podPinPrefix) }

// PodAddresses enters a pod's namespace and returns its addresses as the kubelet wants them: at most one global address
// of each family, IPv4 first. It is for pods whose network another program set up. It returns the errors of Do and of
// the kernel. A namespace without addresses is not an error.
func (h Handle) PodAddresses(ctx context.Context) ([]string, error) {
	var ips []string
	err := h.Do(ctx, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("listing the pod's interfaces: %w", err)
		}
		addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("listing the pod's addresses: %w", err)
		}
		ips = podAddresses(links, addresses)
		return nil
	})
	return ips, err
}

// podAddresses chooses from the kernel's lists, which are in the order of the interface indexes.
func podAddresses(links []netlink.Link, addresses []netlink.Addr) []string {
	names := map[int]string{}
	for _, link := range links {
		if link.Attrs().Flags&net.FlagLoopback == 0 {
			names[link.Attrs().Index] = link.Attrs().Name
		}
	}
	var chosen [2]string // IPv4, IPv6
	var named [2]bool
	for _, a := range addresses {
		name, ok := names[a.LinkIndex]
		if !ok || !isPodAddress(a) {
			continue
		}
		family := 0
		if a.IP.To4() == nil {
			family = 1
		}
		preferred := name == podInterface && !named[family]
		if chosen[family] == "" || preferred {
			chosen[family], named[family] = a.IP.String(), name == podInterface
		}
	}
	var ips []string
	for _, ip := range chosen {
		if ip != "" {
			ips = append(ips, ip)
		}
	}
	return ips
}

// isPodAddress reports whether an address has global scope and is usable. Secondary, temporary and deprecated addresses
// do not count, and neither do addresses that failed duplicate address detection.
func isPodAddress(a netlink.Addr) bool {
	// IFA_F_SECONDARY is IPv6's IFA_F_TEMPORARY, too.
	const unwanted = unix.IFA_F_SECONDARY | unix.IFA_F_DEPRECATED | unix.IFA_F_DADFAILED
	return a.IPNet != nil && a.Scope == int(netlink.SCOPE_UNIVERSE) && a.Flags&unwanted == 0
}
