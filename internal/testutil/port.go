package testutil

import (
	"net"
	"testing"
)

// FreePort returns a TCP port without a listener on any of the machine's addresses. Another program may take it.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	Must(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
