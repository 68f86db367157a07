package translate

import (
	"net/netip"
	"strconv"

	"github.com/moby/moby/api/types/network"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const maxPort = 65535

func checkPorts(field string, mappings []*runtimeapi.PortMapping) error {
	for i, m := range mappings {
		if err := checkPort(item(field, i), m); err != nil {
			return err
		}
	}
	return nil
}

func checkPort(field string, m *runtimeapi.PortMapping) error {
	if m == nil {
		return invalid(field, "is missing")
	}
	if _, ok := protocols[m.GetProtocol()]; !ok {
		return invalid(field+".protocol", "%d is neither TCP, UDP nor SCTP", m.GetProtocol())
	}
	if p := m.GetContainerPort(); p < 0 || p > maxPort {
		return invalid(field+".container_port", "%d is outside 0 to %d", p, maxPort)
	}
	if p := m.GetHostPort(); p < 0 || p > maxPort {
		return invalid(field+".host_port", "%d is outside 0 to %d", p, maxPort)
	}
	if m.GetHostPort() != 0 && m.GetContainerPort() == 0 {
		return invalid(field+".container_port", "is missing, but host_port %d needs it", m.GetHostPort())
	}
	if m.GetHostIp() != "" {
		if _, err := netip.ParseAddr(m.GetHostIp()); err != nil {
			return invalid(field+".host_ip", "%q is not an IP address", m.GetHostIp())
		}
	}
	return nil
}

var protocols = map[runtimeapi.Protocol]network.IPProtocol{
	runtimeapi.Protocol_TCP: network.TCP, runtimeapi.Protocol_UDP: network.UDP, runtimeapi.Protocol_SCTP: network.SCTP,
}

// publish turns checked mappings into Docker's. In CRI a host port of 0 means no host port. In Docker it means any free
// port.
func publish(mappings []*runtimeapi.PortMapping, features docker.Features) (network.PortSet, network.PortMap) {
	exposed, bindings := network.PortSet{}, network.PortMap{}
	for _, m := range mappings {
		if m.GetHostPort() == 0 {
			continue
		}
		port, ok := network.PortFrom(uint16(m.GetContainerPort()), protocols[m.GetProtocol()])
		if !ok {
			continue
		}
		exposed[port] = struct{}{}
		for _, hostIP := range hostIPs(m, features) {
			bindings[port] = append(bindings[port], network.PortBinding{
				HostIP:   hostIP,
				HostPort: strconv.Itoa(int(m.GetHostPort())),
			})
		}
	}
	return exposed, bindings
}

// hostIPs returns the host's addresses at which to publish a port. In CRI, a mapping without an address means every
// address of the host. In Docker, it means the address in daemon.json, if there is one. hostIPs then names every
// address. It names IPv6 only for a pod that has IPv6, as the CNI plugin portmap does: on a host without IPv6, the
// engine could not bind the port.
func hostIPs(m *runtimeapi.PortMapping, features docker.Features) []netip.Addr {
	hostIP, err := netip.ParseAddr(m.GetHostIp())
	switch {
	case err == nil || features.BridgeAddress == "":
		return []netip.Addr{hostIP}
	case features.BridgeIPv6:
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	default:
		return []netip.Addr{netip.IPv4Unspecified()}
	}
}
