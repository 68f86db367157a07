package streaming

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A client that reads slowly gets everything, although it sends something after lingerTime, as a client does that pings
// the server. Its connection ends when it has not read for the idle timeout.
func TestLingerForASlowClient(t *testing.T) {
	const lingers, size = 50 * time.Millisecond, 1 << 20
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
			slow, err := net.DialTCP("tcp4", nil, tcp.Addr().(*net.TCPAddr))
			testutil.Must(t, err)
			t.Cleanup(func() { _ = slow.Close() })
			testutil.Must(t, slow.SetReadBuffer(4096))
			conn, err := l.Accept()
			testutil.Must(t, err)
			server := conn.(*client)
			server.upgraded.Store(true)
			sent := 0
			for sent < size { // until the kernel takes no more
				testutil.Must(t, server.SetWriteDeadline(time.Now().Add(lingers)))
				n, err := server.Write(make([]byte, size-sent))
				if sent += n; err != nil {
					break
				}
			}
			testutil.Require(t, server.undelivered() > 0, "the client's kernel has all of %d bytes", sent)
			ended := testutil.Go(server.Close)
			if !c.reads {
				testutil.Check(t, testutil.Receive(t, ended, "it lingers for ever"))
				return
			}
			time.Sleep(4 * lingers)
			_, err = slow.Write([]byte("ping"))
			testutil.Must(t, err)
			got, err := io.Copy(io.Discard, slow)
			testutil.Assert(t, err == nil && got == int64(sent), "got %d bytes of %d, %v", got, sent, err)
			testutil.Check(t, testutil.Receive(t, ended, "the server does not close"))
		})
	}
}
