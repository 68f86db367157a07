package streaming

import (
	"context"
	"io"
	"net"

	"github.com/containerd/log"
)

// relay copies between a client's stream and a pod's connection until both directions have ended or ctx ends, and
// closes the connection. Each direction ends on its own: when one side has said all it has to say, the other may go on.
// That a side breaks the connection off is no error of the forwarding.
func relay(ctx context.Context, stream io.ReadWriteCloser, conn *net.TCPConn) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		copyDirection(ctx, conn, stream, "to the pod")
		_ = conn.CloseWrite() // fails when the pod has hung up
	}()
	if copyDirection(ctx, stream, conn, "from the pod") {
		// Over SPDY this ends one direction. The older WebSocket protocol has no word for that: it ends the stream.
		_ = stream.Close()
	} else {
		_ = conn.Close()
		reset(stream)
	}
	<-sent
	_ = conn.Close()
	reset(stream)
}

// copyDirection copies until the end and reports whether it was reached.
func copyDirection(ctx context.Context, to io.Writer, from io.Reader, direction string) bool {
	_, err := io.Copy(to, from)
	if err != nil {
		log.G(ctx).WithError(err).WithField("direction", direction).Debug("forwarded connection was cut off")
	}
	return err == nil
}

// reset drops what a client still sends on a SPDY stream. Nobody would read it
// any more, and it would hold up the streams beside it.
func reset(stream io.ReadWriteCloser) {
	if spdy, ok := stream.(interface{ Reset() error }); ok {
		_ = spdy.Reset()
	}
}
