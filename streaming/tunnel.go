package streaming

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/websocket"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// tunnelPrefix precedes the name of a protocol over SPDY inside of a WebSocket (KEP-4006), as for port-forward of
// crictl and kubectl.
const tunnelPrefix = "SPDY/3.1+"

// serveTunnel accepts a WebSocket and calls serve, which speaks SPDY inside it as with an SPDY client.
func serveTunnel(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	websocket.Server{
		Handshake: chooseTunnel,
		Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			serve(&tunneled{conn: ws, header: http.Header{}}, insideOf(r))
		},
	}.ServeHTTP(w, r)
}

// chooseTunnel accepts the port-forward protocol and no other.
func chooseTunnel(config *websocket.Config, _ *http.Request) error {
	name := tunnelPrefix + portforward.ProtocolV1Name
	if !slices.Contains(config.Protocol, name) {
		return errors.New("the client offers " + strings.Join(config.Protocol, ", ") + ", the server requires " + name)
	}
	config.Protocol = []string{name}
	return nil
}

// insideOf returns the SPDY upgrade request that a client without the tunnel would send.
func insideOf(r *http.Request) *http.Request {
	inner := r.Clone(r.Context())
	inner.Header = http.Header{}
	inner.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	inner.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	inner.Header.Set(httpstream.HeaderProtocolVersion, portforward.ProtocolV1Name)
	return inner
}

// tunneled is the http.ResponseWriter for that request. Its hijacked connection is the WebSocket.
type tunneled struct {
	conn   *websocket.Conn
	header http.Header
}

// Header implements http.ResponseWriter.
func (t *tunneled) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter.
func (t *tunneled) WriteHeader(int) {}

// Write implements http.ResponseWriter. It fails, since the upgrade is the only response.
func (t *tunneled) Write([]byte) (int, error) { return 0, http.ErrBodyNotAllowed }

// Hijack implements http.Hijacker.
func (t *tunneled) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}
