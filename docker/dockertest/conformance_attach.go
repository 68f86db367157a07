package dockertest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// reader returns the specification of a container that copies its standard input to its output.
func (s *suite) reader(tty bool) docker.ContainerSpec {
	spec := s.shell("")
	spec.Config.Entrypoint, spec.Config.Cmd = nil, []string{"cat"}
	spec.Config.OpenStdin, spec.Config.StdinOnce, spec.Config.Tty = true, !tty, tty
	return spec
}

var allStreams = docker.AttachOptions{Stdin: true, Stdout: true, Stderr: true}

// A container with StdinOnce has no more input after its client has closed the input.
func testAttach(t *testing.T, s *suite) {
	id := s.start(t, s.reader(false))
	stream, err := s.Engine.AttachContainer(withPatience(t), id, allStreams)
	testutil.Must(t, err)
	defer func() { _ = stream.Close() }()
	_, err = io.WriteString(stream, "there and back")
	testutil.Must(t, err)
	testutil.Must(t, stream.CloseWrite())
	var out, errs bytes.Buffer
	testutil.Must(t, docker.Demultiplex(&out, &errs, stream))
	testutil.Assert(t, out.String() == "there and back" && errs.Len() == 0,
		"got %q and %q", out.String(), errs.String())
	testutil.Until(t, "the container ends with its input", func() bool { return !s.inspect(t, id).State.Running })
}

// A container without StdinOnce keeps its input open when a client leaves.
func testAttachTTY(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	for _, word := range []string{"one", "two"} {
		stream, err := s.Engine.AttachContainer(withPatience(t), id, docker.AttachOptions{Stdin: true, Stdout: true})
		testutil.Must(t, err)
		_, err = io.WriteString(stream, word+"\n")
		testutil.Must(t, err)
		// A real terminal echoes its input, and ends lines with CR LF. Output that the previous client did not read may
		// come first.
		got, err := readThrough(stream, word)
		testutil.Assert(t, err == nil, "read %q, %v, and not %q", got, err, word)
		testutil.Must(t, stream.CloseWrite())
		_, err = io.Copy(io.Discard, stream)
		testutil.Check(t, err, "the attachment's end")
		_ = stream.Close()
	}
	testutil.Assert(t, s.inspect(t, id).State.Running, "the container ended with its client")
}

// readThrough reads up to and including a word.
func readThrough(stream io.Reader, word string) (string, error) {
	var got []byte
	for next := make([]byte, 1); !bytes.HasSuffix(got, []byte(word)); got = append(got, next...) {
		if _, err := io.ReadFull(stream, next); err != nil {
			return string(got), err
		}
	}
	return string(got), nil
}

func testAttachContext(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	ctx, cancel := context.WithCancel(withPatience(t))
	defer cancel()
	stream, err := s.Engine.AttachContainer(ctx, id, docker.AttachOptions{Stdout: true})
	testutil.Must(t, err)
	defer func() { _ = stream.Close() }()
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = io.ReadAll(stream)
	wantError(t, "reading when the context has ended", err, context.Canceled)
}

func testAttachRefused(t *testing.T, s *suite) {
	_, err := s.Engine.AttachContainer(withPatience(t), s.name(), allStreams)
	wantError(t, "attaching to an absent container", err, errdefs.ErrNotFound)
	size := docker.TerminalSize{Width: 80, Height: 25}
	wantError(t, "resizing an absent container", s.Engine.ResizeContainer(withPatience(t), s.name(), size),
		errdefs.ErrNotFound)
	wantError(t, "resizing an absent exec", s.Engine.ResizeExec(withPatience(t), "0123456789abcdef", size),
		errdefs.ErrNotFound)
	id := s.create(t, s.reader(true))
	testutil.Assert(t, s.Engine.ResizeContainer(withPatience(t), id, size) != nil,
		"a container that does not run is resized")
}

// A client can also attach to a container that has ended. The stream stays silent, and the container's log has the
// output.
func testAttachEnded(t *testing.T, s *suite) {
	spec := s.reader(false)
	id := s.start(t, spec)
	stream, err := s.Engine.AttachContainer(withPatience(t), id, allStreams)
	testutil.Must(t, err)
	_, err = io.WriteString(stream, "once\n")
	_ = stream.CloseWrite()
	testutil.Must(t, err)
	testutil.Until(t, "the container ends with its input", func() bool { return !s.inspect(t, id).State.Running })
	_ = stream.Close()

	ctx, cancel := context.WithTimeout(withPatience(t), 300*time.Millisecond)
	defer cancel()
	late, err := s.Engine.AttachContainer(ctx, id, allStreams)
	testutil.Must(t, err)
	defer func() { _ = late.Close() }()
	_, err = io.ReadAll(late)
	wantError(t, "reading the stream of an ended container", err, context.DeadlineExceeded)

	log, err := s.Engine.ContainerLogs(withPatience(t), id, allStreams)
	testutil.Must(t, err)
	defer func() { _ = log.Close() }()
	var out, errs bytes.Buffer
	if err := docker.Demultiplex(&out, &errs, log); err != nil || out.String() != "once\n" || errs.Len() != 0 {
		t.Errorf("the log holds %q and %q, %v", out.String(), errs.String(), err)
	}
	_, err = s.Engine.ContainerLogs(withPatience(t), s.name(), allStreams)
	wantError(t, "the log of an absent container", err, errdefs.ErrNotFound)
}

func testResize(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	size := docker.TerminalSize{Width: 132, Height: 43}
	testutil.Check(t, s.Engine.ResizeContainer(withPatience(t), id, size), "ResizeContainer")
	opts := docker.ExecOptions{Command: []string{"cat"}, TTY: true, Stdin: true, Stdout: true}
	execID, _ := s.startExec(withPatience(t), t, id, opts)
	// The exec has its terminal only a moment after its start.
	testutil.Until(t, "the exec is resized", func() bool {
		return s.Engine.ResizeExec(withPatience(t), execID, size) == nil
	})
}
