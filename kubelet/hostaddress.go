package kubelet

import "net"

// hostAddresses are the addresses from which this machine would reach others, IPv4 first; the loopback address on a
// machine that reaches nobody. No packet is sent: the kernel picks the address when a UDP socket is connected.
func hostAddresses() []string {
	var found []string
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // addresses for documentation, RFC 5737 and 3849
		conn, err := net.Dial("udp", far)
		if err != nil {
			continue
		}
		if address, ok := conn.LocalAddr().(*net.UDPAddr); ok && address.IP.IsGlobalUnicast() {
			found = append(found, address.IP.String())
		}
		conn.Close()
	}
	if len(found) == 0 {
		found = []string{"127.0.0.1"}
	}
	return found
}
