package streaming

import (
	"context"
	"net/http"
	"strings"

	"github.com/containerd/log"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// protocolV5 is the WebSocket protocol of exec and attach in which a client can end only its input (KEP-4006). The
// library's handlers do not support it. Over WebSocket, crictl and kubectl support no other protocol.
const protocolV5 = "v5.channel.k8s.io"

// versionV4 precedes the names of the protocols that write the result as JSON.
const versionV4 = "v4."

// Channels of a WebSocket: the first byte of each message.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelError
	channelResize
	channelCount
)

// serveWebSocket serves exec and attach with one channel for each stream of the client. The kubelet's protocols differ
// in the encoding of bytes and result.
func (c connector) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	asked := c.process.options
	types := channelTypes(asked)
	protocols := map[string]wsstream.ChannelProtocolConfig{protocolV5: {Binary: true, Channels: types}}
	for _, version := range []string{"", versionV4} {
		protocols[version+wsstream.ChannelWebSocketProtocol] = wsstream.ChannelProtocolConfig{Binary: true,
			Channels: types}
		protocols[version+wsstream.Base64ChannelWebSocketProtocol] = wsstream.ChannelProtocolConfig{Channels: types}
	}
	protocols[""] = protocols[wsstream.ChannelWebSocketProtocol] // for a client that names no protocol
	conn := wsstream.NewConn(protocols)
	conn.SetIdleTimeout(c.process.server.idle)
	protocol, streams, err := conn.Open(w, r)
	if err != nil { // the client got an answer
		log.G(r.Context()).WithError(err).Debug("cannot upgrade to WebSocket")
		return
	}
	defer func() { _ = conn.Close() }()
	// An empty message says that the client is connected.
	if _, err := streams[firstOutput(asked)].Write(nil); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	err = c.run(ctx, channels{
		stdin:  streams[channelStdin],
		stdout: streams[channelStdout],
		stderr: streams[channelStderr],
		resize: c.followSizes(ctx, streams[channelResize]),
	})
	c.report(r.Context(), streams[channelError], protocol == protocolV5 || strings.HasPrefix(protocol, versionV4), err)
}

func channelTypes(asked remotecommand.Options) []wsstream.ChannelType {
	types := make([]wsstream.ChannelType, channelCount)
	for channel, on := range map[int]bool{channelStdout: asked.Stdout, channelStderr: asked.Stderr,
		channelError: true} {
		if on {
			types[channel] = wsstream.WriteChannel
		}
	}
	for channel, on := range map[int]bool{channelStdin: asked.Stdin, channelResize: true} {
		if on {
			types[channel] = wsstream.ReadChannel
		}
	}
	return types
}

func firstOutput(asked remotecommand.Options) int {
	switch {
	case asked.Stdout:
		return channelStdout
	case asked.Stderr:
		return channelStderr
	default:
		return channelError
	}
}
