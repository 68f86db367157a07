package streaming

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// FuzzRequests sends any bytes to the server's port, with a valid token instead of TOKEN. The server answers or hangs
// up, and serves the next request.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("GET /exec/TOKEN HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add(
		[]byte(
			"POST /exec/TOKEN HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
				"SPDY/3.1\r\nX-Stream-Protocol-Version: " +
				"v4.channel.k8s.io\r\n\r\n\x80\x03\x00\x01\x00\x00\x00\x0a\x00\x00\x00\x01"))
	f.Add(
		[]byte(
			"GET /exec/TOKEN HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
				"websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
				"AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " +
				"v5.channel.k8s.io\r\n\r\n\x82\x85\x00\x00\x00\x00\xff\x00\x01\x02\x03"))
	f.Add([]byte("GET /../exec//TOKEN%2f?a=%zz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01"))
	s := serve(f, Options{Runtime: fakeRuntime{exec: func(ctx context.Context, _ []string, _ Streams) (int, error) {
		<-ctx.Done() // until the client has left
		return 0, ctx.Err()
	}}})
	f.Fuzz(func(t *testing.T, sent []byte) {
		rawURL, err := s.Exec(t.Context(),
			&runtimeapi.ExecRequest{ContainerId: containerID, Cmd: []string{"c"}, Stdin: true, Stdout: true})
		testutil.Must(t, err)
		u, err := url.Parse(rawURL)
		testutil.Must(t, err)
		token := strings.TrimPrefix(u.Path, "/exec/")
		conn, err := net.Dial("tcp", u.Host)
		testutil.Must(t, err)
		defer conn.Close()
		_, _ = conn.Write([]byte(strings.ReplaceAll(string(sent), "TOKEN", token)))
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, conn)
		s.tickets.redeem(kindExec, token) // so that unused ones do not fill the store
		testutil.Equal(t, status(t, http.DefaultClient, "http://"+u.Host+"/exec/none"), http.StatusNotFound,
			"after %q", sent)
	})
}

// FuzzFrames reads any bytes like spdystream. frameReader and spdystream must agree on where each frame ends, and no
// data frame may be larger than maxDataFrame.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0x80, 3, 0, 1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 1, 0, 0, 2, 'a', 'b'})
	var wire bytes.Buffer
	to, err := spdy.NewFramer(&wire, nil)
	testutil.Must(f, err)
	for _, frame := range []spdy.Frame{
		&spdy.SynStreamFrame{StreamId: 1, Headers: http.Header{"Streamtype": {"stdin"}}},
		&spdy.SynReplyFrame{StreamId: 1, Headers: http.Header{"A": {"b"}}},
		&spdy.HeadersFrame{StreamId: 1, Headers: http.Header{"C": {"d"}}},
		&spdy.DataFrame{StreamId: 1, Data: []byte("data")},
		&spdy.PingFrame{Id: 1},
		&spdy.WindowUpdateFrame{StreamId: 1, DeltaWindowSize: 1},
		&spdy.RstStreamFrame{StreamId: 1, Status: spdy.Cancel},
		&spdy.GoAwayFrame{},
	} {
		testutil.Must(f, to.WriteFrame(frame))
	}
	f.Add(wire.Bytes())
	f.Fuzz(func(t *testing.T, sent []byte) {
		reader := &frameReader{from: bytes.NewReader(append(sent, make([]byte, maxDataFrame+1)...)), next: 1}
		from, err := spdy.NewFramer(nil, reader)
		testutil.Must(t, err)
		for {
			frame, err := from.ReadFrame()
			if err != nil {
				return // spdystream stops at the first error
			}
			testutil.Require(t, len(reader.head) <= 0 && reader.payload <= 0,
				"%+v ends %d bytes too early", frame, len(reader.head)+reader.payload)
			if data, ok := frame.(*spdy.DataFrame); ok && len(data.Data) > maxDataFrame {
				t.Fatalf("a data frame of %d bytes", len(data.Data))
			}
		}
	})
}
