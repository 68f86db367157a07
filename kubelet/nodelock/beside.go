package nodelock

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/containerd/errdefs"
)

// kubeletSockets are where a kubelet serves device plugins and the pod-resources API; neither can be moved but with
// its root directory.
var kubeletSockets = []string{"/var/lib/kubelet/pod-resources/kubelet.sock", "/var/lib/kubelet/device-plugins/kubelet.sock"}

const (
	kubeletPort = "10250"
	// dialTimeout bounds each look: an address that drops packets answers never.
	dialTimeout  = time.Second
	kubeletCheck = "127.0.0.1:10248" // healthzBindAddress and healthzPort
)

// NoKubelet fails, with errdefs.ErrFailedPrecondition, when a kubelet runs on this machine: something listens on its
// socket or, on one of the given addresses or loopback, on its port. Nothing is sent.
func NoKubelet(ctx context.Context, addresses []string) error {
	return noKubelet(ctx, addresses, kubeletPort)
}

func noKubelet(ctx context.Context, addresses []string, port string) error {
	trace, found := firstListener(ctx, append(listeners("unix", kubeletSockets...), ports(addresses, port)...))
	if !found {
		return nil
	}
	return fmt.Errorf("a kubelet seems to run here (%s): it would kill the pods of this one on the same runtime; with --beside-kubelet, "+
		"for a kubelet on another runtime, kubelet-core starts nevertheless: %w", trace, errdefs.ErrFailedPrecondition)
}

type listener struct{ network, address string }

func listeners(network string, addresses ...string) []listener {
	var all []listener
	for _, address := range addresses {
		all = append(all, listener{network, address})
	}
	return all
}

func ports(addresses []string, port string) []listener {
	all := listeners("tcp", kubeletCheck, net.JoinHostPort("127.0.0.1", port))
	for _, address := range addresses {
		all = append(all, listener{"tcp", net.JoinHostPort(address, port)})
	}
	return all
}

func firstListener(ctx context.Context, candidates []listener) (string, bool) {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, one := range candidates {
		conn, err := dialer.DialContext(ctx, one.network, one.address)
		if err != nil {
			continue // refused, or no such socket: nobody is there
		}
		conn.Close()
		return "something listens on " + one.address, true
	}
	return "", false
}
