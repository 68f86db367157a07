// Package grpctest serves gRPC in tests.
package grpctest

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Serve makes a server with the services that register adds, and serves the listener until the test ends or the server
// is stopped.
func Serve(
	t testing.TB, listener net.Listener, register func(*grpc.Server), opts ...grpc.ServerOption,
) *grpc.Server {
	t.Helper()
	server := grpc.NewServer(opts...)
	register(server)
	ended := testutil.Go(func() error { return server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // Stop may come before Serve
			testutil.Check(t, err, "the server ended with")
		}
	})
	return server
}
