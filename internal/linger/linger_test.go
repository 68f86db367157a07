package linger

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A peer that reads slowly gets everything, even if it sends something after the grace period, such as a ping. The wait
// ends when the peer has not read for the idle timeout.
func TestSlowPeer(t *testing.T) {
	const grace, size = 50 * time.Millisecond, 128 << 10 // more than the peer's kernel takes
	for name, c := range map[string]struct {
		idle  time.Duration
		reads bool
	}{
		"it reads later": {time.Hour, true},
		"it never reads": {4 * grace, false},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			testutil.Must(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			slow, err := net.DialTCP("tcp4", nil, listener.Addr().(*net.TCPAddr))
			testutil.Must(t, err)
			t.Cleanup(func() { _ = slow.Close() })
			testutil.Must(t, slow.SetReadBuffer(16<<10))
			conn, err := listener.AcceptTCP()
			testutil.Must(t, err)
			_, err = conn.Write(make([]byte, size))
			testutil.Must(t, err)
			testutil.Require(t, undelivered(conn) > 0, "the peer's kernel has everything")
			ended := testutil.Go(func() error {
				Wait(conn, grace, c.idle)
				return conn.Close()
			})
			if c.reads {
				time.Sleep(4 * grace)
				_, err = slow.Write([]byte("ping"))
				testutil.Must(t, err)
				got, err := io.Copy(io.Discard, slow)
				testutil.Assert(t, err == nil && got == size, "got %d bytes of %d, %v", got, size, err)
			}
			testutil.Check(t, testutil.Receive(t, ended, "the wait does not end"))
		})
	}
}
