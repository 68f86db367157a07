package streaming

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds each attempt to reach a port. Loopback answers at once unless the listener's queue is full.
const dialTimeout = 10 * time.Second

// dial connects to a port on the loopback of the network: 127.0.0.1, then ::1.
func dial(ctx context.Context, network Network, port uint16) (Conn, error) {
	if network.Dial != nil {
		return network.Dial(ctx, port)
	}
	conn, err := dialAddress(ctx, network, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if err == nil {
		return conn, nil
	}
	conn, err6 := dialAddress(ctx, network, netip.AddrPortFrom(netip.IPv6Loopback(), port))
	if err6 == nil {
		return conn, nil
	}
	return nil, fmt.Errorf("%w; %w", err, err6)
}

// dialAddress connects to an address of the network. Only the creation of the socket needs a thread in the network. The
// socket connects on any thread, so ports that do not answer hold no thread.
func dialAddress(ctx context.Context, network Network, to netip.AddrPort) (*net.TCPConn, error) {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := openSocket(ctx, network, family)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := connectSocket(ctx, fd, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

// openSocket creates a TCP socket in the network. A socket stays in the network of the thread that created it.
func openSocket(ctx context.Context, network Network, family int) (fd int, err error) {
	open := func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return os.NewSyscallError("socket", err)
	}
	if network.Host {
		err = open()
		return fd, err
	}
	err = network.Namespace.Do(ctx, open)
	return fd, err
}

// connectSocket connects a non-blocking socket, which it owns. It waits in the Go runtime's poller.
func connectSocket(ctx context.Context, fd int, to unix.Sockaddr) (*net.TCPConn, error) {
	begun := unix.Connect(fd, to)
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() // the connection has a descriptor of its own
	if begun != nil && !errors.Is(begun, unix.EINPROGRESS) {
		return nil, os.NewSyscallError("connect", begun)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) })()
	var failed error
	err = raw.Write(func(fd uintptr) (ended bool) {
		ended, failed = connected(int(fd))
		return ended
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, os.NewSyscallError("connect", failed)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// connected reports whether an attempt to connect has ended, and its error. The poller may call it before the end.
func connected(fd int) (ended bool, err error) {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return true, err
	case code != 0:
		return true, unix.Errno(code)
	}
	_, err = unix.Getpeername(fd)
	return err == nil, nil
}
