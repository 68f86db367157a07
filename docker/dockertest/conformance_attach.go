package dockertest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// reader is a container that copies its standard input to its output.
func (s *suite) reader(tty bool) docker.ContainerSpec {
	spec := s.shell("")
	spec.Config.Entrypoint, spec.Config.Cmd = nil, []string{"cat"}
	spec.Config.OpenStdin, spec.Config.StdinOnce, spec.Config.Tty = true, !tty, tty
	return spec
}

var allStreams = docker.AttachOptions{Stdin: true, Stdout: true, Stderr: true}

// A container with StdinOnce ends its input with the client's.
func testAttach(t *testing.T, s *suite) {
	id := s.start(t, s.reader(false))
	stream, err := s.Engine.AttachContainer(withPatience(t), id, allStreams)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if _, err := io.WriteString(stream, "there and back"); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := docker.Demultiplex(&out, &errs, stream); err != nil {
		t.Fatal(err)
	}
	if out.String() != "there and back" || errs.Len() != 0 {
		t.Errorf("got %q and %q", out.String(), errs.String())
	}
	eventually(t, "the container ends with its input", func() bool { return !s.inspect(t, id).State.Running })
}

// Any other keeps its input when a client goes.
func testAttachTTY(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	for _, word := range []string{"one", "two"} {
		stream, err := s.Engine.AttachContainer(withPatience(t), id, docker.AttachOptions{Stdin: true, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stream, word+"\n"); err != nil {
			t.Fatal(err)
		}
		// A real terminal echoes what is typed, and ends lines with CR LF.
		got := make([]byte, len(word))
		if _, err := io.ReadFull(stream, got); err != nil || string(got) != word {
			t.Errorf("read %q, %v", got, err)
		}
		if err := stream.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("the attachment's end: %v", err)
		}
		_ = stream.Close()
	}
	if !s.inspect(t, id).State.Running {
		t.Error("the container ended with its client")
	}
}

func testAttachContext(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	ctx, cancel := context.WithCancel(withPatience(t))
	defer cancel()
	stream, err := s.Engine.AttachContainer(ctx, id, docker.AttachOptions{Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = io.ReadAll(stream)
	wantError(t, "reading when the context has ended", err, context.Canceled)
}

func testAttachRefused(t *testing.T, s *suite) {
	_, err := s.Engine.AttachContainer(withPatience(t), s.name(), allStreams)
	wantError(t, "attach to no container", err, errdefs.ErrNotFound)
	size := docker.TerminalSize{Width: 80, Height: 25}
	wantError(t, "resize no container", s.Engine.ResizeContainer(withPatience(t), s.name(), size), errdefs.ErrNotFound)
	wantError(t, "resize no exec", s.Engine.ResizeExec(withPatience(t), "0123456789abcdef", size), errdefs.ErrNotFound)
	id := s.create(t, s.reader(true))
	if err := s.Engine.ResizeContainer(withPatience(t), id, size); err == nil {
		t.Error("a container that does not run is resized")
	}
}

func testResize(t *testing.T, s *suite) {
	id := s.start(t, s.reader(true))
	size := docker.TerminalSize{Width: 132, Height: 43}
	if err := s.Engine.ResizeContainer(withPatience(t), id, size); err != nil {
		t.Errorf("ResizeContainer: %v", err)
	}
	opts := docker.ExecOptions{Command: []string{"cat"}, TTY: true, Stdin: true, Stdout: true}
	execID, err := s.Engine.CreateExec(withPatience(t), id, opts)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := s.Engine.AttachExec(withPatience(t), execID, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	// The terminal is there a moment after the start.
	eventually(t, "the exec is resized", func() bool { return s.Engine.ResizeExec(withPatience(t), execID, size) == nil })
}
