package netns

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPodAddresses(t *testing.T) {
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo", Flags: net.FlagLoopback}},
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 2, Name: "net1"}},
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 3, Name: "eth0"}},
	}
	on := func(link int, address string) netlink.Addr {
		ip, network, err := net.ParseCIDR(address)
		testutil.Must(t, err)
		network.IP = ip
		return netlink.Addr{IPNet: network, LinkIndex: link}
	}
	flagged := func(a netlink.Addr, flags int) netlink.Addr { a.Flags = flags; return a }
	local := func(a netlink.Addr) netlink.Addr { a.Scope = int(netlink.SCOPE_LINK); return a }
	for name, tc := range map[string]struct {
		addresses []netlink.Addr
		want      []string
	}{
		"none":          {},
		"lo alone":      {addresses: []netlink.Addr{on(1, "127.0.0.1/8")}},
		"both families": {[]netlink.Addr{on(3, "fd00::7/64"), on(3, "10.0.0.7/24")}, []string{"10.0.0.7", "fd00::7"}},
		"IPv6 alone":    {[]netlink.Addr{local(on(3, "fe80::1/64")), on(3, "fd00::7/64")}, []string{"fd00::7"}},
		"eth0 first": {[]netlink.Addr{on(2, "10.1.0.7/24"), on(3, "10.0.0.7/24"), on(3, "10.0.0.8/24")},
			[]string{"10.0.0.7"}},
		"no eth0": {[]netlink.Addr{on(2, "10.1.0.7/24"), on(2, "fd01::7/64")}, []string{"10.1.0.7", "fd01::7"}},
		"a family from each": {
			[]netlink.Addr{on(2, "10.1.0.7/24"), on(3, "fd00::7/64")}, []string{"10.1.0.7", "fd00::7"},
		},
		"further and temporary ones": {
			[]netlink.Addr{
				flagged(on(3, "10.0.0.9/24"), unix.IFA_F_SECONDARY), on(3, "10.0.0.7/24"),
				flagged(on(3, "fd00::9/64"), unix.IFA_F_TEMPORARY),
				flagged(on(3, "fd00::8/64"), unix.IFA_F_DEPRECATED), on(3, "fd00::7/64"),
			},
			[]string{"10.0.0.7", "fd00::7"},
		},
	} {
		got := podAddresses(links, tc.addresses)
		testutil.Assert(t, slices.Equal(got, tc.want), "%s: got %v, want %v", name, got, tc.want)
	}
}

func TestPodAddressesOfANamespace(t *testing.T) {
	requireRoot(t)
	pid, _ := startPod(t)
	h := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if got, err := h.PodAddresses(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("an empty namespace has %v, %v", got, err)
	}
	err := h.Do(t.Context(), func() error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		for _, address := range []string{"fd00::7/64", "10.0.0.7/24"} {
			parsed, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, parsed); err != nil {
				return err
			}
		}
		return nil
	})
	testutil.Must(t, err)
	got, err := h.PodAddresses(t.Context())
	testutil.Assert(t, err == nil && slices.Equal(got, []string{"10.0.0.7", "fd00::7"}), "got %v, %v", got, err)
}
