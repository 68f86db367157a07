package client

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

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeRuntime has the streaming server that runtimes use. Its only command is the function run.
type fakeRuntime struct {
	streaming.Runtime // tests do not call its other methods
	server            streaming.Server
	run               func(ctx context.Context, in io.Reader, out, errOut io.Writer,
		sizes <-chan remotecommand.TerminalSize) error
	asked *runtimeapi.ExecRequest
}

// started starts a fakeRuntime with the command run, and returns it as its CRI clients see it.
func started(
	t *testing.T,
	run func(ctx context.Context, in io.Reader, out, errOut io.Writer, sizes <-chan remotecommand.TerminalSize) error,
) cri {
	t.Helper()
	fake := &fakeRuntime{run: run}
	web := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fake.server.ServeHTTP(w, r) }))
	address, err := url.Parse("http://" + web.Listener.Addr().String())
	testutil.Must(t, err)
	config := streaming.DefaultConfig
	config.BaseURL = address
	fake.server, err = streaming.NewServer(config, fake)
	testutil.Must(t, err)
	web.Start()
	t.Cleanup(web.Close)
	return cri{fake}
}

func (f *fakeRuntime) Exec(
	ctx context.Context, _ string, _ []string, in io.Reader, out, errOut io.WriteCloser, _ bool,
	sizes <-chan remotecommand.TerminalSize,
) error {
	return f.run(ctx, in, out, errOut, sizes)
}

// cri is a fakeRuntime as its clients see it.
type cri struct{ *fakeRuntime }

func (c cri) Exec(_ context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	c.asked = request
	return c.server.GetExec(request)
}

func TestExec(t *testing.T) {
	runtime := started(t,
		func(_ context.Context, in io.Reader, out, errOut io.Writer, _ <-chan remotecommand.TerminalSize) error {
			text, err := io.ReadAll(in)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "got %s", text)
			fmt.Fprint(errOut, "and an error")
			return exec.CodeExitError{Err: errors.New("exit"), Code: 7}
		})
	var stdout, stderr bytes.Buffer
	err := Exec(t.Context(), runtime, "abc",
		ExecOptions{Command: []string{"x", "y"}, Stdin: strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr})
	var exit *ExitError
	testutil.Assert(t, errors.As(err, &exit) && exit.Code == 7 && stdout.String() == "got input" &&
		stderr.String() == "and an error", "%v, %q, %q", err, stdout.String(), stderr.String())
	r := runtime.asked
	testutil.Assert(t, r.GetContainerId() == "abc" && strings.Join(r.GetCmd(), " ") == "x y" && r.GetStdin() &&
		r.GetStdout() && r.GetStderr() && !r.GetTty(), "asked for %v", r)
}

func TestExecWithTerminal(t *testing.T) {
	runtime := started(t,
		func(_ context.Context, _ io.Reader, out, errOut io.Writer, sizes <-chan remotecommand.TerminalSize) error {
			if errOut != nil {
				return errors.New("a terminal has one output")
			}
			size := <-sizes
			_, err := fmt.Fprintf(out, "%dx%d", size.Width, size.Height)
			return err
		})
	sizes := make(chan Size, 1)
	sizes <- Size{Width: 120, Height: 40}
	var stdout, stderr bytes.Buffer
	err := Exec(t.Context(), runtime, "abc",
		ExecOptions{Command: []string{"sh"}, TTY: true, Stdout: &stdout, Stderr: &stderr, Sizes: sizes})
	testutil.Assert(t, err == nil && stdout.String() == "120x40", "%v, %q", err, stdout.String())
}

func TestExecFails(t *testing.T) {
	runtime := started(t,
		func(context.Context, io.Reader, io.Writer, io.Writer, <-chan remotecommand.TerminalSize) error {
			return errors.New("no such program")
		})
	var out, errOut bytes.Buffer
	err := Exec(t.Context(), runtime, "abc", ExecOptions{Command: []string{"x"}, Stdout: &out, Stderr: &errOut})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no such program"), "got %v", err)
}

func TestExecIsGivenUp(t *testing.T) {
	begun := make(chan struct{})
	runtime := started(t,
		func(ctx context.Context, _ io.Reader, _, _ io.Writer, _ <-chan remotecommand.TerminalSize) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	ctx, cancel := context.WithCancel(t.Context())
	done := testutil.Go(func() error {
		var out, errOut bytes.Buffer
		return Exec(ctx, runtime, "abc", ExecOptions{Command: []string{"x"}, Stdout: &out, Stderr: &errOut})
	})
	<-begun
	cancel()
	err := testutil.Receive(t, done, "Exec still waits for the command")
	testutil.Assert(t, errors.Is(err, context.Canceled), "got %v", err)
}

func TestExecWithoutServer(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	var out bytes.Buffer
	err := Exec(t.Context(), urls(web.URL), "abc", ExecOptions{Command: []string{"x"}, Stdout: &out})
	testutil.Assert(t, err != nil && strings.HasPrefix(err.Error(), "exec: "), "got %v", err)
	err = ended([]byte("half an ans"))
	testutil.Assert(t, errors.Is(err, errdefs.ErrUnavailable), "a cut connection: %v", err)
}

// urls is a runtime that answers every Exec with the URL.
type urls string

func (u urls) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: string(u)}, nil
}

func TestRunningContainer(t *testing.T) {
	pod := running("a", "web")
	id, err := RunningContainer(&pod, "main")
	testutil.Assert(t, id == "abc" && err == nil, "%q, %v", id, err)
	pod.Status.ContainerStatuses[0].State = waiting("ImagePullBackOff")
	_, err = RunningContainer(&pod, "main")
	testutil.Assert(t, errors.Is(err, errdefs.ErrFailedPrecondition) &&
		strings.Contains(err.Error(), "ImagePullBackOff"), "waiting: %v", err)
	pod.Status.ContainerStatuses[0].State, pod.Status.ContainerStatuses[0].ContainerID = runs(), "nonsense"
	_, err = RunningContainer(&pod, "main")
	testutil.Assert(t, errors.Is(err, errdefs.ErrInternal), "without an id: %v", err)
}
