package container

import (
	"context"
	"io"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker"
)

// Size is the size of a terminal in characters. It is an alias, so that this package and package streaming exchange
// sizes without importing each other.
type Size = struct{ Width, Height uint16 }

// Streams are a client's ends of the streams of a process. A nil stream is not connected.
//
// Stdin is read until it ends or the process does. A read that waits at that time is not interrupted: the caller must
// end Stdin when the call has returned.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY says that the process has a terminal, whose output is all in Stdout.
	TTY bool
	// Resize delivers the sizes of the client's terminal. It may be nil.
	Resize <-chan Size
}

// copyOutput copies what the process writes to the client until the stream ends or the client takes no more.
func (s Streams) copyOutput(ctx context.Context, from io.Reader) {
	var err error
	switch {
	case !s.TTY:
		err = docker.Demultiplex(s.Stdout, s.Stderr, from)
	case s.Stdout == nil:
		_, err = io.Copy(io.Discard, from)
	default:
		_, err = io.Copy(s.Stdout, from)
	}
	if err != nil {
		log.G(ctx).WithError(err).Debug("output to client was cut off")
	}
}

// copyInput copies what the client sends to the process and then calls end. If the process takes no more, it discards
// the rest until ctx ends: unread input would block all that the client sends behind it, such as sizes of its terminal.
func (s Streams) copyInput(ctx context.Context, to io.Writer, end func() error) {
	if s.Stdin == nil {
		return
	}
	if _, err := io.Copy(to, s.Stdin); err != nil {
		log.G(ctx).WithError(err).Debug("input from client was cut off")
		for ctx.Err() == nil {
			if _, err := io.CopyN(io.Discard, s.Stdin, discardSize); err != nil {
				return
			}
		}
		return
	}
	if err := end(); err != nil {
		log.G(ctx).WithError(err).Debug("cannot close stdin of process")
	}
}

// discardSize is the number of bytes that are discarded between two checks of the context.
const discardSize = 32 << 10

const (
	// resizeTries is the number of attempts to resize a terminal that may not exist yet. The engine reports a process
	// as started a moment before the process has its terminal.
	resizeTries = 10
	// resizePause is the pause between two tries.
	resizePause = 50 * time.Millisecond
)

// follow passes the sizes of the client's terminal to resize until ctx ends or there are no more. If the process has no
// terminal, it discards them: an unread size would block the client's input behind it.
func (s Streams) follow(ctx context.Context, resize func(context.Context, docker.TerminalSize) error) {
	if s.Resize == nil {
		return
	}
	for {
		select {
		case size, ok := <-s.Resize:
			if !ok {
				return
			}
			if s.TTY && size.Width != 0 && size.Height != 0 { // zero comes from a client without a terminal
				s.applySize(ctx, docker.TerminalSize(size), resize)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s Streams) applySize(
	ctx context.Context, size docker.TerminalSize, resize func(context.Context, docker.TerminalSize) error,
) {
	var err error
	for range resizeTries {
		if err = resize(ctx, size); err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(resizePause):
		case <-ctx.Done():
			return
		}
	}
	log.G(ctx).WithError(err).Debug("cannot resize terminal")
}
