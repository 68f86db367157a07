package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errhttp"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// Demultiplex copies the output of a process without a TTY, as Stream.Read returns it, to stdout and stderr until r
// ends. A nil writer discards its part.
func Demultiplex(stdout, stderr io.Writer, r io.Reader) error {
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	_, err := stdcopy.StdCopy(stdout, stderr, r)
	return err
}

// stream is a Stream on a connection that was taken over from HTTP.
type stream struct {
	ctx    context.Context
	conn   client.HijackedResponse
	detach func() bool
}

// newStream closes the connection when ctx ends. Moby's client closes it only if the request's context ends during the
// handshake.
func newStream(ctx context.Context, conn client.HijackedResponse) *stream {
	return &stream{ctx: ctx, conn: conn, detach: context.AfterFunc(ctx, conn.Close)}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.conn.Reader.Read(p)
	return n, s.explain(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.conn.Conn.Write(p)
	return n, s.explain(err)
}

func (s *stream) CloseWrite() error {
	return s.explain(s.conn.CloseWrite())
}

func (s *stream) Close() error {
	s.detach()
	s.conn.Close()
	return nil
}

// explain returns the context's error if the end of the context closed the connection.
func (s *stream) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) || s.ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("stream: %w", s.ctx.Err())
}

// refusedUpgrade gives the error of a refused take-over the type of its HTTP status. Moby's error has the status only
// in its text.
func refusedUpgrade(err error, status int) error {
	if err == nil || status == 0 || status == http.StatusSwitchingProtocols {
		return err
	}
	kind := errhttp.ToNative(status)
	if !hasType(kind) {
		kind = errdefs.ErrInternal
	}
	return fmt.Errorf("%w: the engine answered %d (%s)", kind, status, http.StatusText(status))
}
