package main

import (
	"context"
	"io"
	"net"
	"sync"
)

// forward passes on connections from a listener in the host's network namespace to an address in this network
// namespace. When ctx ends, it closes the listener and all connections.
func forward(ctx context.Context, listener net.Listener, to string) {
	var all sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		from, err := listener.Accept()
		if err != nil {
			break
		}
		all.Go(func() { passOn(ctx, from, to) })
	}
	all.Wait()
}

func passOn(ctx context.Context, from net.Conn, to string) {
	defer from.Close()
	target, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return // the client sees the end of its connection
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { from.Close(); target.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, target}, {target, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[1], pair[0]) // a connection that breaks ends both directions
			if tcp, ok := pair[1].(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
		})
	}
	both.Wait()
}
