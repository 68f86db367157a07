package streaming

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"golang.org/x/net/websocket"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestMain(m *testing.M) {
	// The library logs each error that it sends to a client.
	klog.SetLogger(logr.Discard())
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// patience bounds every wait of a test.
const patience = testutil.Patience

// fakeRuntime is a Runtime made of functions.
type fakeRuntime struct {
	exec    func(ctx context.Context, command []string, streams Streams) (int, error)
	attach  func(ctx context.Context, streams Streams) error
	network func() (Network, error)
}

func (r fakeRuntime) Exec(ctx context.Context, id string, command []string, streams Streams) (int, error) {
	if id != containerID {
		return 0, fmt.Errorf("container %q", id)
	}
	return r.exec(ctx, command, streams)
}

func (r fakeRuntime) Attach(ctx context.Context, id string, streams Streams) error {
	if id != containerID {
		return fmt.Errorf("container %q", id)
	}
	return r.attach(ctx, streams)
}

func (r fakeRuntime) Network(_ context.Context, id string) (Network, error) {
	if id != sandboxID {
		return Network{}, fmt.Errorf("pod %q", id)
	}
	return r.network()
}

const (
	containerID = "a-container"
	sandboxID   = "a-pod"
)

// serve starts a server on loopback, which is closed at the test's end. The changes come before the start.
func serve(t testing.TB, opts Options, changes ...func(*Server)) *Server {
	t.Helper()
	if opts.Address == "" {
		opts.Address = "127.0.0.1:0"
	}
	s, err := Listen(opts)
	testutil.Must(t, err)
	for _, change := range changes {
		change(s)
	}
	served := testutil.Go(func() error { return s.Serve() })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		testutil.Check(t, s.Close(ctx), "Close")
		testutil.Check(t, <-served, "Serve")
	})
	return s
}

// execURL returns a URL for a command.
func execURL(t *testing.T, s *Server, req *runtimeapi.ExecRequest) string {
	t.Helper()
	req.ContainerId = containerID
	if len(req.Cmd) == 0 {
		req.Cmd = []string{"command"}
	}
	url, err := s.Exec(t.Context(), req)
	testutil.Must(t, err)
	return url
}

// connect opens a plain connection to the server of a URL.
func connect(t *testing.T, rawURL string) net.Conn {
	t.Helper()
	u, err := url.Parse(rawURL)
	testutil.Must(t, err)
	conn, err := net.Dial("tcp", u.Host)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// upgradeToSPDY opens a connection to the server of a URL and upgrades it to SPDY.
func upgradeToSPDY(t *testing.T, url, protocol string) net.Conn {
	t.Helper()
	conn := connect(t, url)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	testutil.Must(t, err)
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	req.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	testutil.Must(t, req.Write(conn))
	// The server sends no SPDY frame before the client does, so the discarded reader has buffered none.
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	testutil.Require(t, err == nil && resp.StatusCode == http.StatusSwitchingProtocols, "%s: %v, %v", url, resp, err)
	return conn
}

// dialSPDY opens an SPDY connection with the library's client.
func dialSPDY(t *testing.T, url, protocol string) (httpstream.Connection, net.Conn) {
	t.Helper()
	conn := upgradeToSPDY(t, url, protocol)
	upgraded, err := spdy.NewClientConnection(conn)
	testutil.Must(t, err)
	return upgraded, conn
}

// terminal is a client of exec or attach over any of transports.
type terminal struct {
	t *testing.T
	// stdin and resize are nil unless asked for.
	stdin, resize io.WriteCloser
	// stdout and stderr hold the received output, and status the server's result. ended is closed when the streams have
	// ended.
	stdout, stderr, status *testutil.Buffer
	ended                  chan struct{}
	// hangUp closes the connection without ending the session.
	hangUp func()
}

// open opens a client at a URL. asked are the options of the request that returned the URL.
type open func(t *testing.T, url string, asked remotecommand.Options) *terminal

// transports are the protocols for exec and attach.
var transports = map[string]open{"spdy": openSPDY, "websocket": openWebSocket}

func openSPDY(t *testing.T, url string, asked remotecommand.Options) *terminal {
	t.Helper()
	conn, raw := dialSPDY(t, url, remotecommand.StreamProtocolV4Name)
	create := func(kind string) httpstream.Stream {
		stream, err := conn.CreateStream(http.Header{remotecommand.StreamType: {kind}})
		testutil.Require(t, err == nil, "stream %s: %v", kind, err)
		return stream
	}
	c := newTerminal(t)
	c.hangUp = func() { _ = raw.Close() }
	var copies sync.WaitGroup
	status := create(remotecommand.StreamTypeError)
	copies.Go(func() { _, _ = io.Copy(c.status, status) })
	if asked.Stdin {
		c.stdin = create(remotecommand.StreamTypeStdin)
	}
	if asked.Stdout {
		stream := create(remotecommand.StreamTypeStdout)
		copies.Go(func() { _, _ = io.Copy(c.stdout, stream) })
	}
	if asked.Stderr {
		stream := create(remotecommand.StreamTypeStderr)
		copies.Go(func() { _, _ = io.Copy(c.stderr, stream) })
	}
	if asked.TTY {
		c.resize = create(remotecommand.StreamTypeResize)
	}
	go func() { copies.Wait(); close(c.ended) }()
	return c
}

func openWebSocket(t *testing.T, url string, asked remotecommand.Options) *terminal {
	t.Helper()
	ws, raw := dialWebSocket(t, url, protocolV5)
	c := newTerminal(t)
	c.hangUp = func() { _ = raw.Close() }
	if asked.Stdin {
		c.stdin = channel{ws, channelStdin}
	}
	if asked.TTY {
		c.resize = channel{ws, channelResize}
	}
	go func() {
		defer close(c.ended)
		for {
			var message []byte
			if websocket.Message.Receive(ws, &message) != nil || len(message) == 0 {
				return
			}
			outputs := map[byte]*testutil.Buffer{channelStdout: c.stdout, channelStderr: c.stderr,
				channelError: c.status}
			_, _ = outputs[message[0]].Write(message[1:])
		}
	}()
	return c
}

func dialWebSocket(t *testing.T, url string, protocols ...string) (*websocket.Conn, net.Conn) {
	t.Helper()
	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(url, "http"), "http://localhost")
	testutil.Must(t, err)
	config.Protocol = protocols
	conn := connect(t, url)
	ws, err := websocket.NewClient(config, conn)
	testutil.Must(t, err)
	return ws, conn
}

// channel writes to one channel of a WebSocket.
type channel struct {
	ws     *websocket.Conn
	number byte
}

func (c channel) Write(p []byte) (int, error) {
	return len(p), websocket.Message.Send(c.ws, append([]byte{c.number}, p...))
}

// Close closes this channel only, with the close message of protocol v5.
func (c channel) Close() error { return websocket.Message.Send(c.ws, []byte{255, c.number}) }

func newTerminal(t *testing.T) *terminal {
	return &terminal{t: t, stdout: &testutil.Buffer{}, stderr: &testutil.Buffer{}, status: &testutil.Buffer{},
		ended: make(chan struct{})}
}

// finish waits for the end and returns the server's result.
func (c *terminal) finish() result {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("the session does not end; stdout %q", c.stdout)
	}
	var out result
	err := json.Unmarshal([]byte(c.status.String()), &out)
	testutil.Require(c.t, err == nil, "status %q: %v", c.status, err)
	return out
}
