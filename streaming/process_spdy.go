package streaming

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/moby/spdystream"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// maxProcessStreams bounds the streams of exec and attach, which have five at most.
const maxProcessStreams = 16

// serveSPDY serves the kubelet's protocols v1 to v4. The client opens one stream for each part: stdin, stdout, stderr,
// the result and the terminal's size.
func (c connector) serveSPDY(w http.ResponseWriter, r *http.Request) {
	conn, ok := upgradeSPDY(w, r, remotecommand.SupportedStreamingProtocols, maxProcessStreams)
	if !ok {
		return
	}
	defer conn.end()
	conn.SetIdleTimeout(c.process.server.idle)
	arrived := make(processStreams, maxProcessStreams)
	conn.serve(c.session, arrived)
	streams, err := c.awaitStreams(r.Context(), conn, arrived)
	if err != nil {
		log.G(r.Context()).WithError(err).WithField("session", c.process.kind).
			Debug("session ends before the client has opened its streams")
		return
	}
	status := streams[remotecommand.StreamTypeError]
	tellsEnd := conn.protocol != remotecommand.StreamProtocolV1Name
	if !tellsEnd { // clients of v1 wait until the server has ended its side of these streams
		conn.drop(status)
		if stdin := streams[remotecommand.StreamTypeStdin]; stdin != nil {
			_ = stdin.Close()
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	of := channels{
		stdin:  streams.get(remotecommand.StreamTypeStdin),
		stdout: streams.get(remotecommand.StreamTypeStdout),
		stderr: streams.get(remotecommand.StreamTypeStderr),
	}
	if resize := streams.get(remotecommand.StreamTypeResize); resize != nil {
		of.resize = c.followSizes(ctx, resize)
	}
	err = c.run(ctx, of)
	if tellsEnd {
		c.report(r.Context(), status, conn.protocol == remotecommand.StreamProtocolV4Name, err)
	}
}

// openedStreams are the client's streams by kind.
type openedStreams map[string]*spdystream.Stream

// get returns the stream of a kind, nil if the client did not open it.
func (s openedStreams) get(kind string) io.ReadWriter {
	if stream, ok := s[kind]; ok {
		return stream
	}
	return nil
}

// awaitStreams waits until the client has opened the streams of the request and one for the result.
func (c connector) awaitStreams(ctx context.Context, conn *spdyConn, arrived processStreams) (openedStreams, error) {
	limit := time.NewTimer(creationTimeout)
	defer limit.Stop()
	wanted, streams := c.countStreams(conn.protocol), openedStreams{}
	for len(streams) < wanted || streams[remotecommand.StreamTypeError] == nil {
		select {
		case stream := <-arrived:
			kind := stream.Headers().Get(remotecommand.StreamType)
			if streams[kind] != nil {
				conn.drop(stream)
				continue
			}
			streams[kind] = stream
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			return nil, fmt.Errorf("the client has opened %d of %d streams within %s", len(streams), wanted,
				creationTimeout)
		}
	}
	return streams, nil
}

func (c connector) countStreams(protocol string) int {
	asked, count := c.process.options, 1
	resizes := protocol == remotecommand.StreamProtocolV4Name || protocol == remotecommand.StreamProtocolV3Name
	for _, on := range []bool{asked.Stdin, asked.Stdout, asked.Stderr, asked.TTY && resizes} {
		if on {
			count++
		}
	}
	return count
}

// processStreams is the opener of exec and attach. It has room for all streams that may be open.
type processStreams chan *spdystream.Stream

func (processStreams) check(header http.Header) error {
	switch kind := header.Get(remotecommand.StreamType); kind {
	case remotecommand.StreamTypeError, remotecommand.StreamTypeStdin, remotecommand.StreamTypeStdout,
		remotecommand.StreamTypeStderr, remotecommand.StreamTypeResize:
		return nil
	default:
		return fmt.Errorf("unexpected stream type %q", kind)
	}
}

func (s processStreams) opened(stream *spdystream.Stream) { s <- stream }
