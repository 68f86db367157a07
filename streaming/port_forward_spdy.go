package streaming

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/moby/spdystream"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// maxForwardStreams bounds the streams of one port-forward session. A forwarded connection has two.
const maxForwardStreams = 2000

// serveSPDY forwards connections until the client ends the session. Each connection has a stream for its data and one
// for an error.
func (f forwarder) serveSPDY(w http.ResponseWriter, r *http.Request) {
	conn, ok := upgradeSPDY(w, r, portforward.SupportedProtocols, maxForwardStreams)
	if !ok {
		return
	}
	defer conn.end()
	conn.SetIdleTimeout(f.server.idle)
	pairs := &pairs{forwarder: f, conn: conn, halves: map[string]half{}}
	defer pairs.end()
	conn.serve(f.session, pairs)
	select {
	case <-conn.CloseChan():
	case <-r.Context().Done():
	}
}

// pairs is the opener of port-forward. It joins the two streams of each connection.
type pairs struct {
	forwarder
	conn *spdyConn

	mu sync.Mutex
	// halves are the first streams of connections that wait for their second stream, by connectionID.
	halves map[string]half
}

// half is the first stream of a connection. expiry drops it if the second stream does not follow.
type half struct {
	*spdystream.Stream
	expiry *time.Timer
}

func (p *pairs) check(header http.Header) error {
	if port, err := strconv.ParseUint(header.Get(portforward.PortHeader), 10, 16); err != nil || port == 0 {
		return fmt.Errorf("the header %s must be a port and is %q", portforward.PortHeader,
			header.Get(portforward.PortHeader))
	}
	switch kind := header.Get(portforward.StreamType); kind {
	case portforward.StreamTypeData, portforward.StreamTypeError:
		return nil
	default:
		return fmt.Errorf("unexpected stream type %q", kind)
	}
}

func (p *pairs) opened(stream *spdystream.Stream) {
	data, failure, err := p.join(stream)
	switch {
	case err != nil:
		log.G(p.ctx).WithError(err).Debug("stream of client is refused")
		p.conn.drop(stream)
	case data != nil:
		p.session.work.Go(func() { p.forward(data, failure) })
	}
}

// join returns both streams of a connection if stream is the second one.
func (p *pairs) join(stream *spdystream.Stream) (data, failure *spdystream.Stream, err error) {
	kind, id := stream.Headers().Get(portforward.StreamType), connectionID(stream)
	p.mu.Lock()
	defer p.mu.Unlock()
	other, ok := p.halves[id]
	switch {
	case !ok:
		p.halves[id] = half{stream, time.AfterFunc(creationTimeout, func() { p.expire(id, stream) })}
		return nil, nil, nil
	case other.Headers().Get(portforward.StreamType) == kind:
		return nil, nil, fmt.Errorf("connection %q has two streams of the type %s", id, kind)
	}
	other.expiry.Stop()
	delete(p.halves, id)
	if kind == portforward.StreamTypeData {
		return stream, other.Stream, nil
	}
	return other.Stream, stream, nil
}

// connectionID names a stream's connection. Clients before Kubernetes 1.2 send no name. They open the two streams one
// after the other, the error stream first.
func connectionID(stream *spdystream.Stream) string {
	header := stream.Headers()
	if id := header.Get(portforward.PortForwardRequestIDHeader); id != "" {
		return id
	}
	id := int64(stream.Identifier())
	if header.Get(portforward.StreamType) == portforward.StreamTypeData {
		id -= 2
	}
	return strconv.FormatInt(id, 10)
}

// expire drops the first stream of a connection if the second is still missing.
func (p *pairs) expire(id string, stream *spdystream.Stream) {
	p.mu.Lock()
	waits := p.halves[id].Stream == stream
	if waits {
		delete(p.halves, id)
	}
	p.mu.Unlock()
	if !waits {
		return
	}
	if stream.Headers().Get(portforward.StreamType) == portforward.StreamTypeError {
		_, _ = io.WriteString(stream, "timed out waiting for the data stream")
	}
	p.conn.drop(stream)
}

// end stops the timers of half connections.
func (p *pairs) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, half := range p.halves {
		half.expiry.Stop()
	}
}

// forward connects a client to a port until both directions have ended. An error ends the connection, and the session
// continues. Clients based on client-go show the error and then end the session themselves.
//
// The error stream ends as soon as the pod has ended its direction. Clients based on client-go before v0.32 (Kubernetes
// 1.32) wait for the end of the error stream. Only afterwards do they end their own direction and hang up.
func (p *pairs) forward(data, failure *spdystream.Stream) {
	defer p.conn.drop(failure)
	defer p.conn.drop(data)
	port, _ := strconv.ParseUint(data.Headers().Get(portforward.PortHeader), 10, 16) // see check
	err := errors.New("the server failed")
	func() {
		defer noPanic(p.ctx, kindPortForward)
		err = p.connect(uint16(port), data, func() { _ = failure.Close() })
	}()
	if err != nil {
		_, _ = fmt.Fprintf(failure, "error forwarding port %d to pod %s: %v", port, p.sandboxID, err)
		return
	}
	_ = failure.Close() // without an error; Close may fail on a stream that is already closed
}
