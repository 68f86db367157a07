package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	spdytransport "k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	serverremote "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/criadapter/criadapter/internal/testutil"
)

// commands are the commands of the fake containers, behind the streaming server that other runtimes use.
type commands struct{}

func (commands) Exec(
	_ context.Context, id string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan serverremote.TerminalSize,
) error {
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "fail":
		fmt.Fprint(out, "to stdout")
		fmt.Fprint(errOut, "to stderr")
		return utilexec.CodeExitError{Code: 7, Err: errors.New("exit 7")}
	case "size":
		size := <-resize
		fmt.Fprintf(out, "%dx%d %v", size.Width, size.Height, tty)
		return nil
	case "lots":
		for range 1000 {
			fmt.Fprintln(out, strings.Repeat("x", 1023))
		}
		return nil
	}
	return fmt.Errorf("no command %q", cmd)
}

func (c commands) Attach(
	ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan serverremote.TerminalSize,
) error {
	return c.Exec(ctx, id, []string{"cat"}, in, out, errOut, tty, resize)
}

func (commands) PortForward(_ context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	if port == 1 {
		return errors.New("nobody listens")
	}
	line := make([]byte, 5)
	if _, err := io.ReadFull(stream, line); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stream, "%s:%d says %s", id, port, line)
	return err
}

// streamingRuntime returns URLs of a streaming server, with or without TLS.
func streamingRuntime(t *testing.T, encrypted bool) *runtime {
	t.Helper()
	var handler http.Handler
	backend := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	if encrypted {
		backend.StartTLS()
	} else {
		backend.Start()
	}
	t.Cleanup(backend.Close)
	base, err := url.Parse(backend.URL)
	testutil.Must(t, err)
	config := streaming.DefaultConfig
	config.BaseURL = base
	server, err := streaming.NewServer(config, commands{})
	testutil.Must(t, err)
	handler = server
	return &runtime{give: func(request any) (string, error) {
		switch request := request.(type) {
		case *runtimeapi.ExecRequest:
			answer, err := server.GetExec(request)
			return answer.GetUrl(), err
		case *runtimeapi.AttachRequest:
			answer, err := server.GetAttach(request)
			return answer.GetUrl(), err
		case *runtimeapi.PortForwardRequest:
			answer, err := server.GetPortForward(request)
			return answer.GetUrl(), err
		}
		return "", fmt.Errorf("no request: %v", request)
	}}
}

// executors are the protocols between clients and a kubelet.
var executors = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"SPDY": func(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
	},
	"WebSocket": func(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, u.String(),
			serverremote.StreamProtocolV4Name)
	},
}

// command runs a command over the API.
func (a *api) command(way, path string, opts remotecommand.StreamOptions) (stdout, stderr string, err error) {
	a.t.Helper()
	u, err := url.Parse(a.config.Host + path)
	testutil.Must(a.t, err)
	executor, err := executors[way](a.config, u)
	testutil.Must(a.t, err)
	var out, errOut bytes.Buffer
	opts.Stdout = &out
	if !opts.Tty {
		opts.Stderr = &errOut
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	err = executor.StreamWithContext(ctx, opts)
	return out.String(), errOut.String(), err
}

// sizes sends a terminal size.
type sizes chan *remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize { return <-s }

func TestExec(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		a := startAPI(t, streamingRuntime(t, encrypted), nil)
		for way := range executors {
			t.Run(fmt.Sprintf("%s, TLS %v", way, encrypted), func(t *testing.T) {
				stdout, stderr, err := a.command(way, "/exec/ns/pod/c?command=fail&output=1&error=1",
					remotecommand.StreamOptions{})
				var exit utilexec.ExitError
				testutil.Assert(t, stdout == "to stdout" && stderr == "to stderr" && errors.As(err, &exit) &&
					exit.ExitStatus() == 7, "fail: %q, %q, %v", stdout, stderr, err)
				size := make(sizes, 1)
				size <- &remotecommand.TerminalSize{Width: 132, Height: 43}
				defer close(size)
				stdout, _, err = a.command(way, "/exec/ns/pod/u/c?command=size&stdin=true&stdout=true&tty=true",
					remotecommand.StreamOptions{
						Stdin: bytes.NewReader(nil), Tty: true, TerminalSizeQueue: size,
					})
				testutil.Assert(t, stdout == "132x43 true" && err == nil, "size: %q, %v", stdout, err)
				stdout, _, err = a.command(way, "/exec/ns/pod/c?command=lots&output=1&error=1",
					remotecommand.StreamOptions{})
				testutil.Assert(t, len(stdout) == 1024*1000 && err == nil, "lots: %d bytes, %v", len(stdout), err)
				_, _, err = a.command(way, "/exec/ns/pod/pulling?command=x&output=1&error=1",
					remotecommand.StreamOptions{})
				if way == "SPDY" &&
					(err == nil ||
						!strings.Contains(err.Error(),
							`container not found ("pulling"): it does not run (ImagePullBackOff)`)) {
					t.Errorf("a container that does not run: %v", err)
				}
			})
		}
		// The end of the input passes only over SPDY, which API servers use.
		input := strings.Repeat("some input\n", 50_000)
		for _, path := range []string{"/exec/ns/pod/c?command=cat&", "/attach/ns/pod/c?"} {
			stdout, _, err := a.command("SPDY", path+"input=1&output=1&error=1",
				remotecommand.StreamOptions{Stdin: strings.NewReader(input)})
			testutil.Assert(t, stdout == input && err == nil, "%s: %d bytes, %v", path, len(stdout), err)
		}
	}
}

func TestPortForward(t *testing.T) {
	a := startAPI(t, streamingRuntime(t, false), nil)
	transport, upgrader, err := spdytransport.RoundTripperFor(a.config)
	testutil.Must(t, err)
	u, err := url.Parse(a.config.Host + "/portForward/ns/pod")
	testutil.Must(t, err)
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(
		spdytransport.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u),
		[]string{":8080", ":9090"}, stop, ready, io.Discard, io.Discard)
	testutil.Must(t, err)
	ended := testutil.Go(forwarder.ForwardPorts)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	testutil.Must(t, err)
	for _, port := range ports {
		got, want := talk(t, port.Local, "hello"), fmt.Sprintf("s1:%d says hello", port.Remote)
		testutil.Assert(t, got == want, "%q, want %q", got, want)
	}
	close(stop)
	testutil.Check(t, <-ended)
}

// TestStreamRequestsToTheRuntime checks the parameters of requests to the runtime.
func TestStreamRequestsToTheRuntime(t *testing.T) {
	r := &runtime{url: "http://127.0.0.1:1/refused"}
	a := startAPI(t, r, nil)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "SPDY/3.1"}
	websocket := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	tunnel := append([]string{"Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io"}, websocket...)
	for _, c := range []struct {
		path   string
		header []string
		asked  any
	}{
		{"/exec/ns/pod/c?command=a&command=b+c&input=1&output=1&error=1", upgrade,
			&runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"a", "b c"}, Stdin: true, Stdout: true,
				Stderr: true}},
		{"/exec/ns/pod/c?command=a&stdin=true&stdout=true&stderr=true&tty=true", websocket,
			&runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"a"}, Stdin: true, Stdout: true, Tty: true}},
		{"/exec/ns/pod/c?command=a&input=0&output=1&tty=0", upgrade,
			&runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"a"}, Stdout: true}},
		{"/attach/ns/pod/u/c?output=1&error=1", upgrade,
			&runtimeapi.AttachRequest{ContainerId: "c1", Stdout: true, Stderr: true}},
		{"/attach/ns/pod/terminal?input=1&output=1&error=1", upgrade,
			&runtimeapi.AttachRequest{ContainerId: "t1", Stdin: true, Stdout: true, Tty: true}},
		{"/portForward/ns/pod", upgrade, &runtimeapi.PortForwardRequest{PodSandboxId: "s1"}},
		{"/portForward/ns/pod/u?port=80,81&ports=82", websocket,
			&runtimeapi.PortForwardRequest{PodSandboxId: "s1", Port: []int32{80, 81, 82}}},
		{"/portForward/ns/pod?ports=80", tunnel, &runtimeapi.PortForwardRequest{PodSandboxId: "s1"}},
	} {
		code, body := a.do(a.client, http.MethodGet, c.path, c.header...)
		testutil.Assert(t, code == http.StatusBadGateway && strings.HasPrefix(body, "the runtime's streaming server: "),
			"%s: %d %s", c.path, code, body)
		got, want := fmt.Sprint(<-r.asked), fmt.Sprint(c.asked)
		testutil.Assert(t, got == want, "%s: asked %s, want %s", c.path, got, want)
	}
	for _, c := range []struct {
		path   string
		header []string
		code   int
		text   string
	}{
		{"/exec/ns/pod/c?command=a&output=1", nil, 400, "Upgrade request required"},
		{"/exec/ns/pod/c?output=1", upgrade, 400, "at least 1 command"},
		{"/exec/ns/pod/c?command=a", upgrade, 400, "at least 1 of stdin, stdout, stderr"},
		{"/exec/ns/pod/c?command=a&tty=1&error=1", upgrade, 400, "at least 1 of stdin, stdout, stderr"},
		{"/exec/ns/pod/c?command=a&output=maybe", upgrade, 400, "output"},
		{"/exec/ns/pod/nothing?command=a&output=1", upgrade, 404, "nothing"},
		{"/exec/ns/nobody/c?command=a&output=1", upgrade, 404, "nobody"},
		{"/attach/ns/pod/ended?output=1", upgrade, 404, `container not found ("ended")`},
		{"/portForward/ns/gone", upgrade, 404, `pod not found ("gone_ns")`},
		{"/portForward/ns/pod", websocket, 400, `"port" is required`},
		{"/portForward/ns/pod?port=0", websocket, 400, `"0" is not a port`},
		{"/portForward/ns/pod?port=65536", websocket, 400, `"65536" is not a port`},
	} {
		code, body := a.do(a.client, http.MethodPost, c.path, c.header...)
		testutil.Assert(t, code == c.code && strings.Contains(body, c.text),
			"%s: %d %s, want %d %s", c.path, code, body, c.code, c.text)
	}
	testutil.Equal(t, len(r.asked), 0, "requests to the runtime")
	for code, want := range map[codes.Code]int{codes.ResourceExhausted: 429, codes.NotFound: 404,
		codes.Unimplemented: 501, codes.Unknown: 500} {
		r.give = func(any) (string, error) { return "", status.Error(code, "words") }
		got, body := a.do(a.client, http.MethodPost, "/portForward/ns/pod", upgrade...)
		testutil.Assert(t, got == want && strings.Contains(body, "words"), "%v: %d %s, want %d", code, got, body, want)
	}
}

// TestSessionsLeaveNothing opens sessions and cuts them in all ways.
func TestSessionsLeaveNothing(t *testing.T) {
	a := startAPI(t, streamingRuntime(t, false), nil)
	settled := a.idle()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 100)
	open := func() {
		u, err := url.Parse(a.config.Host + "/exec/ns/pod/c?command=cat&input=1&output=1&error=1")
		testutil.Must(t, err)
		executor, err := executors["SPDY"](a.config, u)
		testutil.Must(t, err)
		in, feed := io.Pipe()
		t.Cleanup(func() { feed.Close() })
		out, took := io.Pipe()
		ctx := ctx
		context.AfterFunc(ctx, func() { feed.Close(); out.Close() })
		go func() {
			ended <- executor.StreamWithContext(ctx,
				remotecommand.StreamOptions{Stdin: in, Stdout: took, Stderr: io.Discard})
		}()
		_, err = feed.Write([]byte("here\n"))
		testutil.Must(t, err)
		line := make([]byte, 5)
		_, err = io.ReadFull(out, line)
		testutil.Require(t, err == nil && string(line) == "here\n", "%q, %v", line, err)
	}
	for range 5 {
		open()
	}
	cancel()
	for range 5 {
		<-ended
	}
	settled()

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	for range 3 {
		open()
	}
	begun := time.Now()
	a.stop()
	took := time.Since(begun)
	testutil.Assert(t, took <= stopTimeout/2, "with sessions the end took %v", took)
	for range 3 {
		testutil.Receive(t, ended, "a session outlives the API")
	}
	cancel()
	settled()
}
