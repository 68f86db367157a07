package streaming

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FuzzRequests sends the server's port anything, with a valid token in the place of TOKEN: it answers or hangs up, and
// goes on.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("GET /exec/TOKEN HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("POST /exec/TOKEN HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n\x80\x03\x00\x01\x00\x00\x00\x0a\x00\x00\x00\x01"))
	f.Add([]byte("GET /exec/TOKEN HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n\x82\x85\x00\x00\x00\x00\xff\x00\x01\x02\x03"))
	f.Add([]byte("GET /../exec//TOKEN%2f?a=%zz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01"))
	s, err := Listen(Options{
		Address: "127.0.0.1:0",
		Runtime: fakeRuntime{exec: func(ctx context.Context, _ []string, _ Streams) (int, error) {
			<-ctx.Done() // until the client has left
			return 0, ctx.Err()
		}},
	})
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	f.Cleanup(func() {
		// A client that upgrades to SPDY and leaves without a stream has one waited for until creationTimeout, by the
		// library: the end is not held up for it here.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
		if err := <-served; err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, sent []byte) {
		rawURL, err := s.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: containerID, Cmd: []string{"c"}, Stdin: true, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimPrefix(u.Path, "/exec/")
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(strings.ReplaceAll(string(sent), "TOKEN", token)))
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, conn)
		s.tickets.redeem(kindExec, token) // so that unused ones do not fill the store
		if got := status(t, http.DefaultClient, "http://"+u.Host+"/exec/none"); got != http.StatusNotFound {
			t.Errorf("after %q: %d", sent, got)
		}
	})
}
