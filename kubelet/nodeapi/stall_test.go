package nodeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// pipes is a listener in fake time. Its connections have no buffers, so that a write waits for the client.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestStalledClients: a client that reads nothing is cut off after stallTimeout, and after readTimeout while it reads a
// log. A slow client gets everything.
func TestStalledClients(t *testing.T) {
	const size = 5 * writePart
	for _, c := range []struct {
		path  string
		pause time.Duration // before each part that the client reads; 0 for a client that reads nothing
		want  time.Duration // the time after which a write fails; 0 if all succeed
	}{
		{"/pods", 0, stallTimeout},
		{"/containerLogs/ns/pod/c", 0, readTimeout},
		{"/pods", stallTimeout / 3, 0},
	} {
		t.Run(fmt.Sprint(c.path, " ", c.pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failed time.Duration
				listener := make(pipes, 1)
				ctx, cancel := context.WithCancel(t.Context())
				ended := testutil.Go(func() error {
					return serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						begun := time.Now()
						if _, err := w.Write(make([]byte, size)); err != nil {
							failed = time.Since(begun)
						}
					}))
				})
				client, server := net.Pipe()
				listener <- server
				fmt.Fprintf(client, "GET %s HTTP/1.0\r\n\r\n", c.path)
				got, part := 0, make([]byte, writePart)
				for err := error(nil); c.pause > 0 && err == nil; {
					time.Sleep(c.pause)
					var n int
					n, err = io.ReadFull(client, part)
					got += bytes.Count(part[:n], []byte{0})
				}
				time.Sleep(c.want + time.Second)
				cancel()
				testutil.Check(t, <-ended)
				client.Close()
				testutil.Equal(t, failed, c.want, "the time until a write failed")
				testutil.Assert(t, c.want > 0 || got == size, "the slow client got %d bytes of %d", got, size)
			})
		})
	}
}
