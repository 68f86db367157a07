package streaming

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// Kinds of sessions, the first part of a URL's path.
const (
	kindExec        = "exec"
	kindAttach      = "attach"
	kindPortForward = "portforward"
)

// Exec returns the URL at which the command will run. It fails with ErrInvalidArgument for an invalid combination of
// streams, and with ErrResourceExhausted while too many URLs are unused. The container is checked when the URL is used.
func (s *Server) Exec(ctx context.Context, req *runtimeapi.ExecRequest) (string, error) {
	if len(req.GetCmd()) == 0 {
		return "", fmt.Errorf("cmd is required: %w", errdefs.ErrInvalidArgument)
	}
	id, command := req.GetContainerId(), slices.Clone(req.GetCmd())
	p := process{
		server: s,
		kind:   kindExec,
		options: remotecommand.Options{Stdin: req.GetStdin(), Stdout: req.GetStdout(), Stderr: req.GetStderr(),
			TTY: req.GetTty()},
		connect: func(ctx context.Context, streams Streams) error {
			code, err := s.runtime.Exec(ctx, id, command, streams)
			return exitError(code, err)
		},
	}
	return p.url(ctx)
}

// exitError returns the error that carries a non-zero exit code to the client.
func exitError(code int, err error) error {
	if err != nil || code == 0 {
		return err
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}

// Attach returns the URL of the container's streams. It fails like Exec.
func (s *Server) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (string, error) {
	id := req.GetContainerId()
	p := process{
		server: s,
		kind:   kindAttach,
		options: remotecommand.Options{Stdin: req.GetStdin(), Stdout: req.GetStdout(), Stderr: req.GetStderr(),
			TTY: req.GetTty()},
		connect: func(ctx context.Context, streams Streams) error { return s.runtime.Attach(ctx, id, streams) },
	}
	return p.url(ctx)
}

// process is the exec or the attach that a URL stands for.
type process struct {
	server  *Server
	kind    string
	options remotecommand.Options
	connect func(context.Context, Streams) error
}

func (p process) url(ctx context.Context) (string, error) {
	switch o := p.options; {
	case o.TTY && o.Stderr:
		return "", fmt.Errorf("tty and stderr cannot both be true, a terminal has one output: %w",
			errdefs.ErrInvalidArgument)
	case !o.Stdin && !o.Stdout && !o.Stderr:
		return "", fmt.Errorf("one of stdin, stdout and stderr must be true: %w", errdefs.ErrInvalidArgument)
	}
	return p.server.url(ctx, p.kind, p.serve)
}

func (p process) serve(current *session, w http.ResponseWriter, r *http.Request) {
	to := connector{process: p, session: current}
	if wsstream.IsWebSocketRequest(r) {
		to.serveWebSocket(w, r)
		return
	}
	to.serveSPDY(w, r)
}

// connector connects one session to its process.
type connector struct {
	process process
	session *session
}

// channels are the streams of a client, over any protocol. Streams that the request did not ask for may be set, too.
type channels struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan Size
}

// run connects the client and returns when the process ends or the client is gone. A client that is gone is not an
// error, because no client is left to report it to.
func (c connector) run(ctx context.Context, of channels) error {
	asked := c.process.options
	streams := Streams{TTY: asked.TTY}
	if asked.Stdin {
		streams.Stdin = of.stdin
	}
	if asked.Stdout {
		streams.Stdout = of.stdout
	}
	if asked.Stderr {
		streams.Stderr = of.stderr
	}
	if asked.TTY {
		streams.Resize = of.resize
	}
	err := c.process.connect(ctx, streams)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
