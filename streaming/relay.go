package streaming

import (
	"context"
	"io"

	"github.com/containerd/log"
)

// relay copies between a client's stream and a pod's connection until both directions have ended or ctx ends. Then it
// closes the connection. Each direction ends on its own. It is not an error if a side breaks off the connection.
// podEnded is called when the pod has ended its direction.
func relay(ctx context.Context, stream io.ReadWriteCloser, conn Conn, podEnded func()) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		copyDirection(ctx, conn, stream, "to the pod")
		_ = conn.CloseWrite() // fails if the pod has hung up
	}()
	if copyDirection(ctx, stream, conn, "from the pod") {
		// Over SPDY this ends one direction. The older WebSocket protocol cannot do that, so it ends the stream.
		_ = stream.Close()
		podEnded()
	} else {
		_ = conn.Close()
		reset(stream)
	}
	<-sent
	_ = conn.Close()
	reset(stream)
}

// copyDirection copies until the input ends. It reports false if the copy was cut off.
func copyDirection(ctx context.Context, to io.Writer, from io.Reader, direction string) bool {
	_, err := io.Copy(to, from)
	if err != nil {
		log.G(ctx).WithError(err).WithField("direction", direction).Debug("forwarded connection was cut off")
	}
	return err == nil
}

// reset drops further input on a SPDY stream. Unread input would block the other streams.
func reset(stream io.ReadWriteCloser) {
	if spdy, ok := stream.(interface{ Reset() error }); ok {
		_ = spdy.Reset()
	}
}
