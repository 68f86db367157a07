package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// takeOver lets the server take over the connection of an exec, and passes it to the test.
func (f *fakeServer) takeOver() <-chan io.ReadWriteCloser {
	conns := make(chan io.ReadWriteCloser, 1)
	f.handle("POST /exec/e/start", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			f.t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		conns <- conn
	})
	return conns
}

// attachShortly attaches with a request timeout that is just long enough for the handshake on this machine.
func attachShortly(t *testing.T) (stream Stream, conn io.ReadWriteCloser, timeout time.Duration) {
	t.Helper()
	for timeout = 500 * time.Millisecond; ; timeout *= 2 {
		f := newFakeServer(t) // a new server, because the previous one may still answer
		conns := f.takeOver()
		stream, err := f.dial(timeout).AttachExec(testContext(t), "e", ExecOptions{})
		if err == nil {
			return stream, <-conns, timeout
		}
		testutil.Require(t, timeout < testutil.Patience, "AttachExec: %v", err)
	}
}

func TestAttach(t *testing.T) {
	stream, conn, timeout := attachShortly(t)
	defer func() { _ = conn.Close() }()
	time.Sleep(timeout + 200*time.Millisecond) // the request timeout bounds only the handshake
	_, err := io.WriteString(stream, "in")
	testutil.Must(t, err)
	testutil.Must(t, stream.CloseWrite())
	input, err := io.ReadAll(conn)
	testutil.Assert(t, string(input) == "in" && err == nil, "the engine read %q, %v", input, err)
	_, _ = conn.Write([]byte("\x01\x00\x00\x00\x00\x00\x00\x03out\x02\x00\x00\x00\x00\x00\x00\x03err"))
	_ = conn.Close()
	var stdout, stderr bytes.Buffer
	err = Demultiplex(&stdout, &stderr, stream)
	testutil.Assert(t, err == nil && stdout.String() == "out" && stderr.String() == "err",
		"got %q and %q, %v", stdout.String(), stderr.String(), err)
	testutil.Check(t, stream.Close())
}

// TestAttachEnds checks that a waiting read ends with the context, with Close and with the engine.
func TestAttachEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel func(), stream Stream, conn io.Closer)
		want error
	}{
		"context": {func(cancel func(), _ Stream, _ io.Closer) { cancel() }, context.Canceled},
		"close":   {func(_ func(), stream Stream, _ io.Closer) { _ = stream.Close() }, nil},
		"engine":  {func(_ func(), _ Stream, conn io.Closer) { _ = conn.Close() }, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			conns := f.takeOver()
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			stream, err := f.dial(0).AttachExec(ctx, "e", ExecOptions{})
			testutil.Must(t, err)
			defer func() { _ = stream.Close() }()
			conn := <-conns
			defer func() { _ = conn.Close() }()
			time.AfterFunc(50*time.Millisecond, func() { c.end(cancel, stream, conn) })
			_, err = stream.Read(make([]byte, 1))
			testutil.Assert(t, err != nil && (c.want == nil || errors.Is(err, c.want)), "Read: %v", err)
			if c.want == context.Canceled {
				_, err = stream.Write([]byte("x"))
				wantType(t, "Write", err, context.Canceled)
			}
		})
	}
}

func TestAttachRefused(t *testing.T) {
	const timeout = 2 * time.Second // enough for an answer on a busy machine
	for name, c := range map[string]struct {
		handler func(*fakeServer) http.HandlerFunc
		want    error
	}{
		"404": {func(*fakeServer) http.HandlerFunc {
			return answer(404, `{"message":"No such exec instance"}`)
		}, errdefs.ErrNotFound},
		"409": {func(*fakeServer) http.HandlerFunc {
			return answer(409, `{"message":"is paused"}`)
		}, errdefs.ErrConflict},
		"500": {func(*fakeServer) http.HandlerFunc { return answer(500, `{}`) }, errdefs.ErrInternal},
		"200": {func(*fakeServer) http.HandlerFunc { return answer(200, `{}`) }, errdefs.ErrInternal},
		"418": {func(*fakeServer) http.HandlerFunc { return answer(418, `{}`) }, errdefs.ErrInternal},
		"hung up": {func(*fakeServer) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, errdefs.ErrUnavailable},
		"no answer": {func(f *fakeServer) http.HandlerFunc { return f.hang() }, errdefs.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("POST /exec/e/start", c.handler(f))
			_, err := f.dial(timeout).AttachExec(testContext(t), "e", ExecOptions{})
			wantType(t, "AttachExec", err, c.want)
		})
	}
}

func TestDemultiplex(t *testing.T) {
	const out, errs, daemon, bad = "\x01\x00\x00\x00\x00\x00\x00\x01o", "\x02\x00\x00\x00\x00\x00\x00\x01e",
		"\x03\x00\x00\x00\x00\x00\x00\x04oops", "\x09\x00\x00\x00\x00\x00\x00\x00"
	for input, want := range map[string]struct {
		stdout string
		fails  bool
	}{
		"": {"", false}, out + errs + out: {"oo", false}, out + daemon: {"o", true}, out + bad: {"o", true},
		"\x01\x00": {"", false},
	} {
		var stdout bytes.Buffer
		err := Demultiplex(&stdout, nil, bytes.NewReader([]byte(input)))
		testutil.Assert(t, stdout.String() == want.stdout && (err != nil) == want.fails,
			"%q: got %q, %v", input, stdout.String(), err)
	}
	testutil.Check(t, Demultiplex(nil, nil, bytes.NewReader([]byte(out+errs))), "without writers")
}
