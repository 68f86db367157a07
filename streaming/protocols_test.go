package streaming

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/moby/spdystream/spdy"
	"golang.org/x/net/websocket"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// failing is a command that writes its input and ends with 3.
var failing = fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
	input := make([]byte, 5)
	if streams.Stdin != nil {
		_, _ = io.ReadFull(streams.Stdin, input)
	}
	_, err := streams.Stdout.Write(input)
	return 3, err
}}

// The result of a failed command is nothing in SPDY protocol v1, text in v2 and v3, and JSON in v4.
func TestResultInEachSPDYProtocol(t *testing.T) {
	for protocol, want := range map[string]string{
		remotecommand.StreamProtocolV1Name: "",
		remotecommand.StreamProtocolV2Name: "command terminated with non-zero exit code: exit code 3",
		remotecommand.StreamProtocolV3Name: "command terminated with non-zero exit code: exit code 3",
		remotecommand.StreamProtocolV4Name: `"reason":"ExitCode","message":"3"`,
	} {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, Options{Runtime: failing})
			url := execURL(t, s, request(remotecommand.Options{Stdin: true, Stdout: true}))
			c := openRawSPDY(t, url, protocol)
			c.open(1, remotecommand.StreamType, remotecommand.StreamTypeError)
			c.open(3, remotecommand.StreamType, remotecommand.StreamTypeStdout)
			c.open(5, remotecommand.StreamType, remotecommand.StreamTypeStdin)
			testutil.Must(t, c.send(5, []byte("hello")))
			got := map[spdy.StreamId]string{}
			for {
				frame, err := c.ReadFrame()
				if err != nil {
					break
				}
				if data, ok := frame.(*spdy.DataFrame); ok {
					got[data.StreamId] += string(data.Data)
				}
			}
			testutil.Assert(t, strings.Contains(got[1], want) && (want != "" || got[1] == "") && got[3] == "hello",
				"result %q, output %q", got[1], got[3])
		})
	}
}

// Each WebSocket protocol carries input, output and the result, as bytes or base64.
func TestResultInEachWebSocketProtocol(t *testing.T) {
	const words, structured = "command terminated with non-zero exit code: exit code " +
		"3", `"reason":"ExitCode","message":"3"`
	for protocol, want := range map[string]string{
		"":                         words,
		"channel.k8s.io":           words,
		"base64.channel.k8s.io":    words,
		"v4.channel.k8s.io":        structured,
		"v4.base64.channel.k8s.io": structured,
		protocolV5:                 structured,
	} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			s := serve(t, Options{Runtime: failing})
			var offered []string
			if protocol != "" {
				offered = []string{protocol}
			}
			ws, _ := dialWebSocket(t, execURL(t, s, request(remotecommand.Options{Stdin: true, Stdout: true})),
				offered...)
			coded := strings.Contains(protocol, "base64")
			message := []byte("\x00hello")
			if coded {
				message = []byte("0" + base64.StdEncoding.EncodeToString([]byte("hello")))
			}
			testutil.Must(t, websocket.Message.Send(ws, message))
			got := map[byte][]byte{}
			for {
				var message []byte
				if err := websocket.Message.Receive(ws, &message); err != nil || len(message) == 0 {
					break
				}
				channel, content := message[0], message[1:]
				if coded {
					channel -= '0'
					content, _ = base64.StdEncoding.DecodeString(string(content))
				}
				got[channel] = append(got[channel], content...)
			}
			testutil.Assert(t, string(got[channelStdout]) == "hello" && bytes.Contains(got[channelError], []byte(want)),
				"output %q, result %q", got[channelStdout], got[channelError])
		})
	}
}

// Clients before Kubernetes 1.2 do not say which two streams belong together.
func TestPortForwardWithoutRequestIDs(t *testing.T) {
	port := listen(t, "tcp4", "127.0.0.1:0", afterTheEnd)
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	c := openRawSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
	for id := spdy.StreamId(1); id < 9; id += 4 {
		c.open(id, portforward.StreamType, portforward.StreamTypeError, portforward.PortHeader, fmt.Sprint(port))
		c.open(id+2, portforward.StreamType, portforward.StreamTypeData, portforward.PortHeader, fmt.Sprint(port))
	}
	got, ended := map[spdy.StreamId]string{}, 0
	for ended < 2 {
		frame, err := c.ReadFrame()
		testutil.Must(t, err)
		switch frame := frame.(type) {
		case *spdy.SynReplyFrame:
			if frame.StreamId%4 == 3 { // the data stream is open
				hello := spdy.DataFrame{StreamId: frame.StreamId, Data: []byte("hello"), Flags: spdy.DataFlagFin}
				testutil.Must(t, c.WriteFrame(&hello))
			}
		case *spdy.DataFrame:
			got[frame.StreamId] += string(frame.Data)
			if frame.StreamId%4 == 3 && frame.Flags&spdy.DataFlagFin != 0 {
				ended++
			}
		}
	}
	testutil.Assert(t, got[3] == "got 5 bytes" && got[7] == "got 5 bytes", "%v", got)
}
