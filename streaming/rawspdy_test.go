package streaming

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"
	kubespdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// rawSPDY is a client that writes and reads SPDY frames itself.
type rawSPDY struct {
	*spdy.Framer
	t    *testing.T
	conn net.Conn
}

func openRawSPDY(t *testing.T, url, protocol string) rawSPDY {
	t.Helper()
	conn := connect(t, url)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, kubespdy.HeaderSpdy31)
	req.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s: %v, %v", url, resp, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	framer, err := spdy.NewFramer(conn, conn)
	if err != nil {
		t.Fatal(err)
	}
	return rawSPDY{framer, t, conn}
}

// open opens a stream with these headers, given as pairs.
func (c rawSPDY) open(id spdy.StreamId, headers ...string) {
	c.t.Helper()
	frame := &spdy.SynStreamFrame{StreamId: id, Headers: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		frame.Headers.Set(headers[i], headers[i+1])
	}
	if err := c.WriteFrame(frame); err != nil {
		c.t.Fatal(err)
	}
}

// send writes one data frame, or fails when the server hangs up.
func (c rawSPDY) send(id spdy.StreamId, data []byte) error {
	return c.WriteFrame(&spdy.DataFrame{StreamId: id, Data: data})
}

// awaitReply returns when the server has opened one more stream.
func (c rawSPDY) awaitReply() {
	c.t.Helper()
	frame, err := c.ReadFrame()
	if _, opened := frame.(*spdy.SynReplyFrame); err != nil || !opened {
		c.t.Fatalf("%+v, %v", frame, err)
	}
}
