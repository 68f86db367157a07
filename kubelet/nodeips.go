package kubelet

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/criadapter/criadapter/kubelet/model"
)

// addressAge is how long the addresses of the default routes count as current. It is the kubelet's period of the node's
// status.
const addressAge = 10 * time.Second

// nodeAddresses are this node's addresses. It is safe for concurrent use.
type nodeAddresses struct {
	// detect reads the addresses of the default routes. It is nil for configured addresses, which never change.
	detect func() []string
	// has reports whether an interface of this machine has an address.
	has func(ip string) bool

	mu   sync.Mutex
	ips  []string
	read time.Time
}

// newNodeAddresses takes configured addresses. Without any, the addresses follow the default routes, as with a kubelet:
// the network may come up after this process.
func newNodeAddresses(configured []string) *nodeAddresses {
	if len(configured) > 0 {
		return &nodeAddresses{ips: configured}
	}
	return &nodeAddresses{ips: []string{"127.0.0.1"}, detect: routeAddresses, has: onInterface}
}

// list returns the addresses, the primary one first. Without a route it returns the last known addresses, or else the
// loopback address. If only one IP family lacks a route, its last known address stays while an interface has it. The
// caller must not change the list.
func (a *nodeAddresses) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detect != nil && (a.read.IsZero() || time.Since(a.read) >= addressAge) {
		a.read = time.Now()
		if found := a.detect(); len(found) > 0 {
			kept := slices.DeleteFunc(slices.Clone(a.ips), func(ip string) bool { return !a.has(ip) })
			a.ips = model.PodAddresses(append(found, kept...), "")
		}
	}
	return a.ips
}

// primary returns the first address.
func (a *nodeAddresses) primary() string { return a.list()[0] }

// routeAddresses returns the source addresses of this machine's default routes, IPv4 first. No packet is sent: the
// kernel selects the address when a UDP socket is connected.
func routeAddresses() []string {
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
	return found
}

// onInterface reports whether an interface of this machine has the address, which is not a loopback address.
func onInterface(ip string) bool {
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(address net.Addr) bool {
		known, ok := address.(*net.IPNet)
		return ok && known.IP.IsGlobalUnicast() && known.IP.String() == ip
	})
}
