package streaming

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// pingers open a client of stdin and stdout. They return the client's connection and a function that sends a message.
var pingers = map[string]func(t *testing.T, url string) (net.Conn, func() error){
	"spdy": func(t *testing.T, url string) (net.Conn, func() error) {
		c := openRawSPDY(t, url, remotecommand.StreamProtocolV4Name)
		for i, kind := range []string{remotecommand.StreamTypeError, remotecommand.StreamTypeStdin,
			remotecommand.StreamTypeStdout} {
			c.open(spdy.StreamId(2*i+1), remotecommand.StreamType, kind)
		}
		return c.conn, func() error { return c.WriteFrame(&spdy.PingFrame{Id: 1}) }
	},
	"websocket": func(t *testing.T, url string) (net.Conn, func() error) {
		ws, conn := dialWebSocket(t, url, protocolV5)
		return conn, func() error {
			_, err := channel{ws, channelStdin}.Write([]byte("input"))
			return err
		}
	},
}

// lingering is a server that gives a client the time grace to hang up. Its command waits for begin and ends after an
// output of size bytes.
func lingering(
	t *testing.T, grace time.Duration, size int, begin <-chan struct{},
) (s *Server, url string, ended <-chan struct{}) {
	t.Helper()
	end := make(chan struct{})
	s = serve(t, Options{Runtime: fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
		defer close(end)
		<-begin
		_, err := streams.Stdout.Write(make([]byte, size))
		return 0, err
	}}}, func(s *Server) { s.listener.linger = grace })
	return s, execURL(t, s, &runtimeapi.ExecRequest{Stdin: true, Stdout: true}), end
}

// A client that reads late gets everything, although it sends something meanwhile.
func TestSlowClientGetsEverything(t *testing.T) {
	const grace, size = 50 * time.Millisecond, 128 << 10 // more than the client's kernel takes
	for name, open := range pingers {
		t.Run(name, func(t *testing.T) {
			begin := make(chan struct{})
			_, url, ended := lingering(t, grace, size, begin)
			conn, ping := open(t, url)
			testutil.Must(t, conn.(*net.TCPConn).SetReadBuffer(16<<10))
			close(begin)
			await(t, "the command ends", ended)
			time.Sleep(4 * grace)
			testutil.Must(t, ping())
			got, err := io.Copy(io.Discard, conn)
			testutil.Assert(t, err == nil && got > size, "got %d bytes, %v", got, err)
		})
	}
}

// The session of a client that reads everything and never hangs up ends, although the client sends something after the
// end.
func TestClientThatStaysEnds(t *testing.T) {
	for name, open := range pingers {
		t.Run(name, func(t *testing.T) {
			begin := make(chan struct{})
			s, url, ended := lingering(t, time.Second, 1, begin)
			conn, ping := open(t, url)
			close(begin)
			await(t, "the command ends", ended)
			_, err := io.Copy(io.Discard, conn)
			testutil.Must(t, err)
			_ = ping() // on a slow machine the session has ended
			testutil.Until(t, "the session ends", func() bool { return s.Sessions()[kindExec] == 0 })
		})
	}
}
