package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/containerd/log"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// protocolV5 is the WebSocket protocol of exec and attach that can end the input alone (KEP-4006). The library knows it
// below, but not in its handlers; crictl and kubectl speak no other over WebSocket.
const protocolV5 = "v5.channel.k8s.io"

// Channels of a WebSocket, each message's first byte.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelError
	channelResize
	channelCount
)

// serveV5 is what the library's handlers do, for that protocol.
func (c connector) serveV5(w http.ResponseWriter, r *http.Request) {
	asked := c.process.options
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocolV5: {Binary: true, Channels: channelTypes(asked)},
	})
	conn.SetIdleTimeout(c.process.server.idle)
	_, streams, err := conn.Open(w, r)
	if err != nil { // the client got an answer
		log.G(r.Context()).WithError(err).Debug("cannot upgrade to WebSocket")
		return
	}
	defer func() { _ = conn.Close() }()
	// An empty message tells the client that it is connected.
	if _, err := streams[firstOutput(asked)].Write(nil); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	sizes := make(chan remotecommand.TerminalSize)
	c.session.work.Go(func() {
		if asked.TTY {
			decodeSizes(ctx, streams[channelResize], sizes)
			return
		}
		// Unread messages would hold up the input behind them.
		_, _ = io.Copy(io.Discard, streams[channelResize])
	})
	err = c.run(ctx, channels{
		stdin:  streams[channelStdin],
		stdout: streams[channelStdout],
		stderr: streams[channelStderr],
		resize: sizes,
	})
	if err := json.NewEncoder(streams[channelError]).Encode(resultOf(c.process.kind, err)); err != nil {
		log.G(r.Context()).WithError(err).Debug("cannot send result of session to client")
	}
}

func channelTypes(asked remotecommand.Options) []wsstream.ChannelType {
	types := make([]wsstream.ChannelType, channelCount)
	for channel, on := range map[int]bool{channelStdout: asked.Stdout, channelStderr: asked.Stderr, channelError: true} {
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

// decodeSizes reads terminal sizes until there are no more or ctx ends. The
// connection is closed by then at the latest, which ends the read.
func decodeSizes(ctx context.Context, from io.Reader, to chan<- remotecommand.TerminalSize) {
	defer close(to)
	decoder := json.NewDecoder(from)
	for {
		var size remotecommand.TerminalSize
		if err := decoder.Decode(&size); err != nil {
			return
		}
		select {
		case to <- size:
		case <-ctx.Done():
			return
		}
	}
}

// result is the part of a metav1.Status that clients of exec and attach read.
type result struct {
	Metadata struct{}       `json:"metadata"`
	Status   string         `json:"status"`
	Message  string         `json:"message,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Details  *resultDetails `json:"details,omitempty"`
	Code     int            `json:"code,omitempty"`
}

type resultDetails struct {
	Causes []resultCause `json:"causes,omitempty"`
}

type resultCause struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// resultOf says how a session ended, as the library's handlers do.
func resultOf(kind string, err error) result {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return result{Status: "Success"}
	case errors.As(err, &exit) && exit.Exited():
		return result{
			Status:  "Failure",
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Reason:  string(remotecommand.NonZeroExitCodeReason),
			Details: &resultDetails{Causes: []resultCause{
				{Reason: string(remotecommand.ExitCodeCauseType), Message: strconv.Itoa(exit.ExitStatus())},
			}},
		}
	}
	message := fmt.Sprintf("Internal error occurred: %s failed: %v", kind, err)
	return result{
		Status:  "Failure",
		Message: message,
		Reason:  "InternalError",
		Details: &resultDetails{Causes: []resultCause{{Message: err.Error()}}},
		Code:    http.StatusInternalServerError,
	}
}
