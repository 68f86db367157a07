package streaming

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/containerd/log"
	"github.com/moby/spdystream"
	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"
	kubespdy "k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// maxStreamHeaders and maxHeaderField bound the headers of a stream. Clients send up to three of some tens of
	// bytes.
	maxStreamHeaders = 32
	maxHeaderField   = 4 << 10
)

// spdyConn is a SPDY connection on which the client opens streams. The library's own connection leaks goroutines if a
// client opens more streams than expected, or sends data on an unread stream.
type spdyConn struct {
	*spdystream.Connection
	ctx context.Context
	// protocol is the server's choice from the protocols that the client offered.
	protocol string
	net      net.Conn
	// limit is the largest number of open streams.
	limit int

	mu sync.Mutex
	// streams are the open streams. It is nil after end.
	streams map[*spdystream.Stream]bool
}

// opener handles the streams of a spdyConn. Its methods are called concurrently and must not block.
type opener interface {
	// check refuses a stream because of its headers.
	check(http.Header) error
	// opened gets a stream after the client got the answer that it is open.
	opened(*spdystream.Stream)
}

// upgradeSPDY answers a request for SPDY. It returns false if it has answered with an error.
func upgradeSPDY(w http.ResponseWriter, r *http.Request, protocols []string, limit int) (*spdyConn, bool) {
	protocol, err := httpstream.Handshake(r, w, protocols)
	if err != nil { // the client got an answer
		log.G(r.Context()).WithError(err).Debug("cannot agree with client on a protocol")
		return nil, false
	}
	wanted := strings.ToLower(r.Header.Get(httpstream.HeaderUpgrade))
	if !httpstream.IsUpgradeRequest(r) || !strings.Contains(wanted, strings.ToLower(kubespdy.HeaderSpdy31)) {
		http.Error(w, "the request asks for an upgrade neither to "+kubespdy.HeaderSpdy31+" nor to a WebSocket",
			http.StatusBadRequest)
		return nil, false
	}
	w.Header().Add(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	w.Header().Add(httpstream.HeaderUpgrade, kubespdy.HeaderSpdy31)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		log.G(r.Context()).WithError(err).Debug("cannot take over connection of client")
		return nil, false
	}
	framed := framedConn{Conn: conn, frames: &frameReader{from: buffered.Reader, next: 1}}
	upgraded, err := spdystream.NewConnectionWithOptions(framed, true,
		spdy.WithMaxControlFramePayloadSize(maxControlFrame),
		spdy.WithMaxHeaderFieldSize(maxHeaderField), spdy.WithMaxHeaderCount(maxStreamHeaders))
	if err != nil {
		log.G(r.Context()).WithError(err).Debug("cannot speak SPDY with client")
		_ = conn.Close()
		return nil, false
	}
	return &spdyConn{
		Connection: upgraded, ctx: r.Context(), protocol: protocol, net: conn, limit: limit,
		streams: map[*spdystream.Stream]bool{},
	}, true
}

// framedConn is a connection that is read through frames.
type framedConn struct {
	net.Conn
	frames io.Reader
}

// Read implements net.Conn.
func (c framedConn) Read(p []byte) (int, error) { return c.frames.Read(p) }

// serve passes the client's streams to the opener until end is called or the client ends the connection. Then it closes
// the connection.
func (c *spdyConn) serve(current *session, to opener) {
	current.work.Go(func() {
		defer c.net.Close()
		c.Connection.Serve(func(stream *spdystream.Stream) {
			defer noPanic(c.ctx, "stream") // this goroutine is spdystream's
			if err := c.open(stream, to); err != nil {
				log.G(c.ctx).WithError(err).Debug("stream of client is refused")
				c.drop(stream)
			}
		})
	})
}

// open answers the client that its stream is open, and then calls the opener.
func (c *spdyConn) open(stream *spdystream.Stream, to opener) error {
	if err := to.check(stream.Headers()); err != nil {
		return err
	}
	if !c.add(stream) {
		return errors.New("the connection has too many streams, or ends")
	}
	if err := stream.SendReply(http.Header{}, false); err != nil {
		return err
	}
	to.opened(stream)
	return nil
}

func (c *spdyConn) add(stream *spdystream.Stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == nil || len(c.streams) >= c.limit {
		return false
	}
	c.streams[stream] = true
	return true
}

// drop ends a stream in both directions. Further input on it is discarded.
func (c *spdyConn) drop(stream *spdystream.Stream) {
	c.mu.Lock()
	delete(c.streams, stream)
	c.mu.Unlock()
	_ = stream.Reset() // fails if the client is gone
}

// end drops all streams. It ends the connection when the client has hung up.
func (c *spdyConn) end() {
	c.mu.Lock()
	streams := c.streams
	c.streams = nil
	c.mu.Unlock()
	for stream := range streams {
		_ = stream.Reset()
	}
	_ = c.Connection.Close()
}
