package main

import (
	"fmt"
	"net"
	"strings"
)

// The families of addresses that a cluster can have: IPv4, both versions with IPv4 first, or IPv6 alone.
const (
	familyIPv4 = "ipv4"
	familyDual = "dual"
	familyIPv6 = "ipv6"
)

// network is what a cluster has of one version of IP.
type network struct {
	// keeper, node1 and node2 are addresses on the bridge that connects the nodes.
	keeper, node1, node2 string
	// bits is the length of the bridge's prefix.
	bits int
	// pods and services are the networks of kubeadm's configuration.
	pods, services string
	// flag is the option of the command ip for this version, and forwarding the sysctl that a router sets.
	flag, forwarding string
}

var (
	ipv4 = network{"192.0.2.254", "192.0.2.1", "192.0.2.2", 24, "10.244.0.0/16", "10.96.0.0/16", "-4",
		"net.ipv4.ip_forward"}
	ipv6 = network{"2001:db8::254", "2001:db8::1", "2001:db8::2", 64, "fd00:10:244::/56", "fd00:10:96::/112", "-6",
		"net.ipv6.conf.all.forwarding"}
)

// networksOf returns the networks of a family, the primary one first.
func networksOf(family string) ([]network, error) {
	switch family {
	case familyIPv4:
		return []network{ipv4}, nil
	case familyDual:
		return []network{ipv4, ipv6}, nil
	case familyIPv6:
		return []network{ipv6}, nil
	}
	return nil, fmt.Errorf("-family %q: want %s, %s or %s", family, familyIPv4, familyDual, familyIPv6)
}

// prefix is an address with the length of the bridge's prefix.
func (n network) prefix(address string) string { return fmt.Sprintf("%s/%d", address, n.bits) }

// each joins a part of every network by commas.
func each(networks []network, part func(network) string) string {
	var parts []string
	for _, n := range networks {
		parts = append(parts, part(n))
	}
	return strings.Join(parts, ",")
}

// configure returns shell commands that give a machine its addresses and routes in these networks. Duplicate address
// detection is off, so that an address can be used at once.
func configure(networks []network, ip func(network) string) string {
	var script strings.Builder
	script.WriteString("ip link set eth0 up\n")
	for _, n := range networks {
		nodad := ""
		if n == ipv6 {
			nodad = " nodad"
		}
		fmt.Fprintf(&script, "ip address add %s dev eth0%s\nip %s route add default via %s\nsysctl -w %s=1\n",
			n.prefix(ip(n)), nodad, n.flag, n.keeper, n.forwarding)
	}
	return script.String()
}

// url is the URL of a port of an address of either version.
func url(address, port string) string { return "http://" + net.JoinHostPort(address, port) + "/" }
