package streaming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A write to the client waits while the client does not read. The end of the session must not wait for it.
func TestClientThatNeverReads(t *testing.T) {
	clients := map[string]func(t *testing.T, url string){
		"spdy": func(t *testing.T, url string) {
			c := openRawSPDY(t, url, remotecommand.StreamProtocolV4Name)
			c.open(1, remotecommand.StreamType, remotecommand.StreamTypeError)
			c.open(3, remotecommand.StreamType, remotecommand.StreamTypeStdout)
		},
		"websocket": func(t *testing.T, url string) { dialWebSocket(t, url, protocolV5) },
	}
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			s := serve(t, Options{IdleTimeout: 500 * time.Millisecond, Runtime: fakeRuntime{
				exec: func(ctx context.Context, _ []string, streams Streams) (int, error) {
					defer close(ended)
					_, err := io.Copy(struct{ io.Writer }{streams.Stdout}, endless{})
					<-ctx.Done() // the command runs on
					return 0, err
				}}}, func(s *Server) { s.listener.linger /= 50 })
			check := testutil.NoMoreGoroutines(t)
			open(t, execURL(t, s, request(remotecommand.Options{Stdout: true})))
			await(t, "the session ends", ended)
			check()
		})
	}
}

// endless is output that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A process without a token must not hold connections: they are descriptors of the whole server.
func TestConnectionsThatSayNothingMoreEnd(t *testing.T) {
	const none = "GET /exec/none HTTP/1.1\r\nHost: x\r\n"
	for name, request := range map[string]string{
		"nothing sent":      "",
		"unfinished header": none,
		"answered":          none + "\r\n",
		"body not sent":     none + "Content-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := impatient(t)
			_, err := io.WriteString(conn, request)
			testutil.Must(t, err)
			_, err = io.Copy(io.Discard, conn)
			testutil.Check(t, err, "the connection stays open")
		})
	}
	t.Run("answers not read", func(t *testing.T) {
		conn := impatient(t)
		requests := bytes.Repeat([]byte(none+"\r\n"), 100)
		var err error
		for err == nil {
			// A busy machine answers requests for long before its buffers are full.
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, err = conn.Write(requests)
		}
		testutil.Assert(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection stays open")
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	const limit = 3
	s := serve(t, Options{Runtime: fakeRuntime{}}, func(s *Server) { s.listener.limit = limit })
	// get says whether the server answers on a new connection, which stays open.
	get := func() (conn net.Conn, answered bool) {
		conn = connect(t, s.base.String())
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, "GET /exec/none HTTP/1.1\r\nHost: x\r\n\r\n")
		n, err := conn.Read(make([]byte, 1))
		testutil.Require(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection is neither answered nor closed")
		return conn, n == 1
	}
	var first net.Conn
	for i := range limit {
		conn, answered := get()
		testutil.Require(t, answered, "connection %d gets no answer", i)
		first = conn
	}
	_, answered := get()
	testutil.Assert(t, !answered, "one more connection is answered")
	_ = first.Close()
	testutil.Until(t, "a place is free again", func() bool {
		_, answered := get()
		return answered
	})
}

// impatient connects to a server whose timeouts for requests are 200 ms instead of ten seconds.
func impatient(t *testing.T) net.Conn {
	t.Helper()
	s := serve(t, Options{Runtime: fakeRuntime{}}, func(s *Server) {
		s.http.ReadTimeout /= 50
		s.http.WriteTimeout /= 50
	})
	conn := connect(t, s.base.String())
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}
