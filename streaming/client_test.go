package streaming

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A client that reads slowly gets everything, although it sends something after lingerTime, as a client does that pings
// the server. Its connection ends when it has not read for the idle timeout.
func TestLingerForASlowClient(t *testing.T) {
	const lingers, size = 50 * time.Millisecond, 128 << 10 // more than the client's kernel takes
	for name, c := range map[string]struct {
		idle  time.Duration
		reads bool
	}{
		"it reads later": {time.Hour, true},
		"it never reads": {4 * lingers, false},
	} {
		t.Run(name, func(t *testing.T) {
			tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			testutil.Must(t, err)
			l := &listener{TCPListener: tcp, idle: c.idle, linger: lingers, limit: 1}
			t.Cleanup(func() { _ = l.Close() })
			dialer := net.Dialer{Control: smallBuffer}
			slow, err := dialer.DialContext(t.Context(), "tcp4", tcp.Addr().String())
			testutil.Must(t, err)
			t.Cleanup(func() { _ = slow.Close() })
			conn, err := l.Accept()
			testutil.Must(t, err)
			server := conn.(*client)
			server.upgraded.Store(true)
			_, err = server.Write(make([]byte, size))
			testutil.Must(t, err)
			testutil.Require(t, server.undelivered() > 0, "the client's kernel has everything")
			ended := testutil.Go(server.Close)
			if c.reads {
				time.Sleep(4 * lingers)
				_, err = slow.Write([]byte("ping"))
				testutil.Must(t, err)
				got, err := io.Copy(io.Discard, slow)
				testutil.Assert(t, err == nil && got == size, "got %d bytes of %d, %v", got, size, err)
			}
			testutil.Check(t, testutil.Receive(t, ended, "the server does not close"))
		})
	}
}

// smallBuffer gives a socket a small buffer for data that was not read.
func smallBuffer(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10)
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}
