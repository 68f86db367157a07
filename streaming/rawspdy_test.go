package streaming

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"

	"github.com/criadapter/criadapter/internal/testutil"
)

// rawSPDY is a client that writes and reads SPDY frames itself.
type rawSPDY struct {
	*spdy.Framer
	t    *testing.T
	conn net.Conn
}

func openRawSPDY(t *testing.T, url, protocol string) rawSPDY {
	t.Helper()
	conn := upgradeToSPDY(t, url, protocol)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	framer, err := spdy.NewFramer(conn, conn)
	testutil.Must(t, err)
	return rawSPDY{framer, t, conn}
}

// open opens a stream with these headers, given as pairs.
func (c rawSPDY) open(id spdy.StreamId, headers ...string) {
	c.t.Helper()
	frame := &spdy.SynStreamFrame{StreamId: id, Headers: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		frame.Headers.Set(headers[i], headers[i+1])
	}
	testutil.Must(c.t, c.WriteFrame(frame))
}

// send writes one data frame, or fails when the server hangs up.
func (c rawSPDY) send(id spdy.StreamId, data []byte) error {
	return c.WriteFrame(&spdy.DataFrame{StreamId: id, Data: data})
}

// awaitReply waits for the server's reply that one more stream is open.
func (c rawSPDY) awaitReply() {
	c.t.Helper()
	frame, err := c.ReadFrame()
	_, opened := frame.(*spdy.SynReplyFrame)
	testutil.Require(c.t, err == nil && opened, "%+v, %v", frame, err)
}
