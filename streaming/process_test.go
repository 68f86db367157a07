package streaming

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// overEach runs a test over each transport.
func overEach(t *testing.T, test func(t *testing.T, open open)) {
	for name, open := range transports {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func request(o remotecommand.Options) *runtimeapi.ExecRequest {
	return &runtimeapi.ExecRequest{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Tty: o.TTY}
}

func TestExecKeepsStreamsApart(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		s := serve(t,
			Options{Runtime: fakeRuntime{exec: func(_ context.Context, command []string, streams Streams) (int, error) {
				if streams.TTY || streams.Stdin == nil {
					return 0, errors.New("other streams than asked for")
				}
				// The read ends when the client closes its input, which is a half-close of the connection.
				input, err := io.ReadAll(streams.Stdin)
				fmt.Fprintf(streams.Stdout, "%v read %s", command, input)
				fmt.Fprint(streams.Stderr, "to stderr")
				return 0, err
			}}})
		asked := remotecommand.Options{Stdin: true, Stdout: true, Stderr: true}
		req := request(asked)
		req.Cmd = []string{"a", "b c"}
		c := open(t, execURL(t, s, req), asked)
		fmt.Fprint(c.stdin, "the input")
		// The library's client sends the end of the stream, and then an empty message. The second write fails if the
		// session has ended meanwhile.
		_ = c.stdin.Close()
		got := c.finish()
		testutil.Assert(t, got.Status == "Success", "%+v", got)
		testutil.Assert(t, c.stdout.String() == "[a b c] read the input" && c.stderr.String() == "to stderr",
			"stdout %q, stderr %q", c.stdout, c.stderr)
	})
}

func TestExecWithoutSomeStreams(t *testing.T) {
	for _, asked := range []remotecommand.Options{{Stdin: true}, {Stdout: true}, {Stderr: true},
		{Stdin: true, Stderr: true}} {
		overEach(t, func(t *testing.T, open open) {
			s := serve(t,
				Options{Runtime: fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
					if (streams.Stdin != nil) != asked.Stdin || (streams.Stdout != nil) != asked.Stdout ||
						(streams.Stderr != nil) != asked.Stderr {
						return 0, fmt.Errorf("%+v", streams)
					}
					return 0, nil
				}}})
			got := open(t, execURL(t, s, request(asked)), asked).finish()
			testutil.Assert(t, got.Status == "Success", "%+v: %+v", asked, got)
		})
	}
}

func TestExitCodes(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		for _, code := range []int{1, 3, 126, 127, 137, 255} {
			s := serve(t,
				Options{Runtime: fakeRuntime{exec: func(context.Context, []string, Streams) (int, error) {
					return code, nil
				}}})
			asked := remotecommand.Options{Stdout: true}
			got := open(t, execURL(t, s, request(asked)), asked).finish()
			if got.Status != "Failure" || got.Reason != "NonZeroExitCode" || len(got.Details.Causes) != 1 ||
				got.Details.Causes[0] != (resultCause{Reason: "ExitCode", Message: fmt.Sprint(code)}) {
				t.Errorf("%d: %+v", code, got)
			}
		}
	})
}

func TestErrorsReachTheClient(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		s := serve(t, Options{Runtime: fakeRuntime{
			exec:   func(context.Context, []string, Streams) (int, error) { return 0, errors.New("no such luck") },
			attach: func(context.Context, Streams) error { return errors.New("no such luck") },
		}})
		asked := remotecommand.Options{Stdout: true}
		attachURL, err := s.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: containerID, Stdout: true})
		testutil.Must(t, err)
		for _, url := range []string{execURL(t, s, request(asked)), attachURL} {
			got := open(t, url, asked).finish()
			testutil.Assert(t, got.Status == "Failure" && got.Reason == "InternalError" &&
				bytes.Contains([]byte(got.Message), []byte("no such luck")), "%+v", got)
		}
	})
}

func TestTerminalIsResized(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		sizes := make(chan Size, 2)
		s := serve(t, Options{Runtime: fakeRuntime{attach: func(ctx context.Context, streams Streams) error {
			for range 2 {
				select {
				case size := <-streams.Resize:
					sizes <- size
				case <-ctx.Done():
				}
			}
			_, err := fmt.Fprint(streams.Stdout, "resized")
			return err
		}}})
		url, err := s.Attach(t.Context(),
			&runtimeapi.AttachRequest{ContainerId: containerID, Stdin: true, Stdout: true, Tty: true})
		testutil.Must(t, err)
		c := open(t, url, remotecommand.Options{Stdin: true, Stdout: true, TTY: true})
		fmt.Fprint(c.resize, `{"Width":80,"Height":25}`)
		fmt.Fprint(c.resize, `{"Width":132,"Height":43}`)
		got := c.finish()
		testutil.Assert(t, got.Status == "Success" && c.stdout.String() == "resized", "%+v, %q", got, c.stdout)
		first, second := <-sizes, <-sizes
		testutil.Assert(t, first == (Size{80, 25}) && second == (Size{132, 43}), "%v, then %v", first, second)
	})
}

func TestLargeInputComesBackWhole(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		s := serve(t,
			Options{Runtime: fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
				_, err := io.Copy(streams.Stdout, streams.Stdin)
				return 0, err
			}}})
		asked := remotecommand.Options{Stdin: true, Stdout: true}
		c := open(t, execURL(t, s, request(asked)), asked)
		sent := make([]byte, 10<<20)
		rand.New(rand.NewSource(1)).Read(sent)
		_, err := io.Copy(c.stdin, bytes.NewReader(sent))
		testutil.Must(t, err)
		_ = c.stdin.Close()
		got := c.finish()
		testutil.Assert(t, got.Status == "Success" && c.stdout.String() == string(sent),
			"%+v, %d of %d bytes", got, len(c.stdout.String()), len(sent))
	})
}

func TestBadRequestsGetNoURL(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{}})
	exec := func(req *runtimeapi.ExecRequest) error { _, err := s.Exec(t.Context(), req); return err }
	attach := func(req *runtimeapi.AttachRequest) error { _, err := s.Attach(t.Context(), req); return err }
	forward := func(ports ...int32) error {
		_, err := s.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
		return err
	}
	tests := map[string]error{
		"no command":             exec(&runtimeapi.ExecRequest{Stdout: true}),
		"no stream":              exec(&runtimeapi.ExecRequest{Cmd: []string{"c"}}),
		"tty and stderr":         exec(&runtimeapi.ExecRequest{Cmd: []string{"c"}, Tty: true, Stderr: true}),
		"attach to no stream":    attach(&runtimeapi.AttachRequest{}),
		"attach tty and stderr":  attach(&runtimeapi.AttachRequest{Tty: true, Stderr: true}),
		"port 0":                 forward(80, 0),
		"port 65536":             forward(65536),
		"a negative port number": forward(-1),
	}
	for name, err := range tests {
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "%s: %v", name, err)
	}
}

// A process that neither reads nor writes does not notice that its client is gone. The server notices it, and ends the
// session.
func TestClientThatLeaves(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		command, begun, ended := waits()
		s := serve(t, Options{Runtime: command})
		check := testutil.NoMoreGoroutines(t)
		asked := remotecommand.Options{Stdin: true, Stdout: true}
		c := open(t, execURL(t, s, request(asked)), asked)
		await(t, "the session begins", begun)
		c.hangUp()
		await(t, "the session ends", ended)
		check()
	})
}

// Unread input of the client hides the end of its connection.
func TestClientThatLeavesUnreadInput(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		command, _, ended := waits()
		s := serve(t, Options{Runtime: command})
		check := testutil.NoMoreGoroutines(t)
		asked := remotecommand.Options{Stdin: true, Stdout: true}
		c := open(t, execURL(t, s, request(asked)), asked)
		stuck := make(chan struct{})
		go func() {
			defer close(stuck)
			for piece := make([]byte, 32<<10); ; {
				if _, err := c.stdin.Write(piece); err != nil {
					return
				}
			}
		}()
		time.Sleep(200 * time.Millisecond) // until the connection's buffers are full
		c.hangUp()
		await(t, "the session ends", ended)
		await(t, "the client's write ends", stuck)
		check()
	})
}

// A command may leave input unread. Its output still reaches the client, because the server closes the connection
// gracefully. A reset would discard output that the client has not read.
func TestUnreadInputCostsNoOutput(t *testing.T) {
	end := make(chan struct{})
	s := serve(t, Options{Runtime: fakeRuntime{exec: func(_ context.Context, _ []string, streams Streams) (int, error) {
		<-end
		_, err := io.WriteString(streams.Stdout, "the output")
		return 0, err
	}}})
	ws, raw := dialWebSocket(t, execURL(t, s, request(remotecommand.Options{Stdin: true, Stdout: true})), protocolV5)
	input := channel{ws, channelStdin}
	for range 10 { // more than the server reads ahead
		_, err := input.Write(make([]byte, 32<<10))
		testutil.Must(t, err)
	}
	close(end)
	var got bytes.Buffer
	_ = raw.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(&got, raw)
	testutil.Assert(t, err == nil, "the connection ends with %v", err)
	testutil.Assert(t, strings.Contains(got.String(), "the output") && strings.Contains(got.String(), "Success"),
		"got %q", &got)
}

func TestServerEndsSessions(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		command, begun, _ := waits()
		s := serve(t, Options{Runtime: command})
		asked := remotecommand.Options{Stdout: true}
		c := open(t, execURL(t, s, request(asked)), asked)
		await(t, "the session begins", begun)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		testutil.Must(t, s.Close(ctx))
		await(t, "the client gets the end", c.ended)
	})
}

func TestIdleSessionEnds(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		command, _, ended := waits()
		s := serve(t, Options{IdleTimeout: 300 * time.Millisecond, Runtime: command})
		asked := remotecommand.Options{Stdout: true}
		open(t, execURL(t, s, request(asked)), asked)
		await(t, "the session ends", ended)
	})
}

// A defect in one session ends no other.
func TestPanicEndsItsSessionAlone(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		s := serve(t, Options{Runtime: fakeRuntime{
			exec:   func(context.Context, []string, Streams) (int, error) { panic("a defect") },
			attach: func(context.Context, Streams) error { return nil },
		}})
		asked := remotecommand.Options{Stdout: true}
		await(t, "the session ends", open(t, execURL(t, s, request(asked)), asked).ended)
		url, err := s.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: containerID, Stdout: true})
		testutil.Must(t, err)
		got := open(t, url, asked).finish()
		testutil.Assert(t, got.Status == "Success", "another session: %+v", got)
	})
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

func FuzzDecodeSizes(f *testing.F) {
	f.Add([]byte(`{"Width":80,"Height":25}{"Width":1`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sizes := make(chan Size)
		go decodeSizes(ctx, bytes.NewReader(content), sizes)
		for range sizes {
		}
	})
}
