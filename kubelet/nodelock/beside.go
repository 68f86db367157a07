package nodelock

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/containerd/errdefs"
)

// kubeletSockets are the kubelet's sockets for device plugins and the pod-resources API. Their paths change only with
// the kubelet's root directory.
var kubeletSockets = []string{"/var/lib/kubelet/pod-resources/kubelet.sock",
	"/var/lib/kubelet/device-plugins/kubelet.sock"}

const (
	kubeletPort = "10250"
	// dialTimeout bounds each dial: an address that drops packets never answers.
	dialTimeout  = time.Second
	kubeletCheck = "127.0.0.1:10248" // healthzBindAddress and healthzPort
)

// NoKubelet returns an errdefs.ErrFailedPrecondition if a kubelet seems to run on this machine. It dials the kubelet's
// sockets, its health port on loopback, and its API port on loopback and on the addresses. It sends nothing.
func NoKubelet(ctx context.Context, addresses []string) error {
	return noKubelet(ctx, addresses, kubeletPort)
}

func noKubelet(ctx context.Context, addresses []string, port string) error {
	address, found := firstListener(ctx, append(listeners("unix", kubeletSockets...), ports(addresses, port)...))
	if !found {
		return nil
	}
	return fmt.Errorf("a kubelet seems to run here, because a process listens on its address %s; a kubelet kills the "+
		"pods of kubelet-core on its runtime: stop the kubelet, or give --beside-kubelet if it has another runtime or "+
		"the process is another program: %w", address, errdefs.ErrFailedPrecondition)
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

// firstListener returns the address of the first candidate that accepts a connection.
func firstListener(ctx context.Context, candidates []listener) (string, bool) {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, one := range candidates {
		conn, err := dialer.DialContext(ctx, one.network, one.address)
		if err != nil {
			continue
		}
		conn.Close()
		return one.address, true
	}
	return "", false
}
