package streaming

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds each attempt to reach a port, which loopback answers at once unless the listener's queue is full.
const dialTimeout = 10 * time.Second

// dial connects to a port on the loopback of the network: 127.0.0.1, then ::1.
func dial(ctx context.Context, network Network, port uint16) (conn *net.TCPConn, err error) {
	if network.Host {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return dialLoopback(ctx, port)
	}
	err = network.Namespace.Do(ctx, func() error {
		conn, err = dialLoopback(ctx, port)
		return err
	})
	return conn, err
}

// dialLoopback must run on a locked thread: a socket belongs to the network of the thread that makes it. The addresses
// are literal, as a resolver would ask on other threads, and each attempt is made by itself, as parallel ones would be
// made on other threads.
func dialLoopback(ctx context.Context, port uint16) (*net.TCPConn, error) {
	thread := unix.Gettid()
	dialer := net.Dialer{
		Timeout: dialTimeout,
		// It is called once the socket is made. A connection to another network is worse than none, so this does not
		// count on how the standard library works inside.
		Control: func(string, string, syscall.RawConn) error {
			if unix.Gettid() != thread {
				return errors.New("the connection was made outside of the pod's network")
			}
			return nil
		},
	}
	conn, err := dialer.DialTCP(ctx, "tcp4", netip.AddrPort{}, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if err == nil {
		return conn, nil
	}
	conn, err6 := dialer.DialTCP(ctx, "tcp6", netip.AddrPort{}, netip.AddrPortFrom(netip.IPv6Loopback(), port))
	if err6 == nil {
		return conn, nil
	}
	return nil, fmt.Errorf("%w; %w", err, err6)
}
