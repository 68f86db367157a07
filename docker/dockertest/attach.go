package dockertest

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// attachment is a caller's end of a container's streams. The engine's lock guards it.
type attachment struct {
	container *container
	opts      docker.AttachOptions
	output    *output
}

// AttachContainer implements docker.Attachments. The stream has the text that Print lets the container write. A
// container with an Echo program also writes its input.
func (e *Engine) AttachContainer(ctx context.Context, id string, opts docker.AttachOptions) (docker.Stream, error) {
	a, err := ask(ctx, e, "AttachContainer", id, func() (*attachment, error) { return e.attach(id, opts) })
	if err != nil {
		return nil, err
	}
	s := &attachedStream{ctx: ctx, engine: e, attachment: a}
	s.detach = context.AfterFunc(ctx, a.output.end)
	return s, nil
}

func (e *Engine) attach(id string, opts docker.AttachOptions) (*attachment, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return nil, err
	}
	// A client can also attach to a stopped container, for its next start.
	a := &attachment{container: c, opts: opts, output: newOutput(opts.Stdout, opts.Stderr, c.config.Tty)}
	c.attached = append(c.attached, a)
	return a, nil
}

// Print makes a container write to its log and to attached clients.
func (e *Engine) Print(id, stdout, stderr string) error {
	return e.withContainer(id, func(c *container) error {
		c.print(stdout, stderr)
		return nil
	})
}

// print writes to the container's log and to attached clients. The caller holds the engine's lock.
func (c *container) print(stdout, stderr string) {
	c.log = append(c.log, printed{streamStdout, stdout}, printed{streamStderr, stderr})
	for _, a := range c.attached {
		a.output.print(streamStdout, stdout)
		a.output.print(streamStderr, stderr)
	}
}

// printed is a piece of a container's log.
type printed struct {
	stream byte
	text   string
}

// ContainerLogs implements docker.Attachments.
func (e *Engine) ContainerLogs(ctx context.Context, id string, opts docker.AttachOptions) (io.ReadCloser, error) {
	return ask(ctx, e, "ContainerLogs", id, func() (io.ReadCloser, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c, err := e.find(id)
		if err != nil {
			return nil, err
		}
		read := newOutput(opts.Stdout, opts.Stderr, c.config.Tty)
		for _, piece := range c.log {
			read.print(piece.stream, piece.text)
		}
		read.end()
		return io.NopCloser(readerFunc(read.read)), nil
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// frameHeader returns the header of one piece of multiplexed output.
func frameHeader(number byte, n int) []byte {
	return []byte{number, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// ResizeContainer implements docker.Attachments.
func (e *Engine) ResizeContainer(ctx context.Context, id string, size docker.TerminalSize) error {
	return e.onRunning(ctx, "ResizeContainer", id, func(c *container) error {
		c.terminal = size
		return nil
	})
}

// ResizeExec implements docker.Attachments.
func (e *Engine) ResizeExec(ctx context.Context, execID string, size docker.TerminalSize) error {
	return e.call(ctx, "ResizeExec", execID, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		x, ok := e.execs[execID]
		switch {
		case !ok:
			return fmt.Errorf("%w: No such exec instance: %s", errdefs.ErrNotFound, execID)
		case !x.running:
			return fmt.Errorf("%w: exec %s is not running", errdefs.ErrConflict, execID)
		}
		x.terminal = size
		return nil
	})
}

// ContainerTerminal returns the last size of a container's terminal, zero if none was set.
func (e *Engine) ContainerTerminal(id string) docker.TerminalSize {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return docker.TerminalSize{}
	}
	return c.terminal
}

// ExecTerminals returns the last sizes set for the terminals of the running commands in a container.
func (e *Engine) ExecTerminals(id string) []docker.TerminalSize {
	e.mu.Lock()
	defer e.mu.Unlock()
	var sizes []docker.TerminalSize
	for _, x := range e.execs {
		if x.running && x.container.id == id {
			sizes = append(sizes, x.terminal)
		}
	}
	return sizes
}

// endAttachments ends the streams of a container that has ended. The caller
// holds the lock.
func (c *container) endAttachments() {
	for _, a := range c.attached {
		a.output.end()
	}
	c.attached = nil
}

// attachedStream is a docker.Stream.
type attachedStream struct {
	ctx        context.Context
	engine     *Engine
	attachment *attachment
	detach     func() bool
}

func (s *attachedStream) Read(p []byte) (int, error) { return s.attachment.output.readIn(s.ctx, p) }

// Write reaches only a container that was created with OpenStdin. Otherwise it discards the input, like the real
// engine.
func (s *attachedStream) Write(p []byte) (int, error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	a := s.attachment
	c := a.container
	if !c.running() {
		return 0, fmt.Errorf("%w: the container has ended", io.ErrClosedPipe)
	}
	if !a.opts.Stdin || !c.config.OpenStdin || !c.program.Echo {
		return len(p), nil
	}
	c.print(string(p), "")
	return len(p), nil
}

func (s *attachedStream) CloseWrite() error {
	s.engine.endStdin(s.attachment)
	return nil
}

func (s *attachedStream) Close() error {
	s.detach()
	s.engine.endStdin(s.attachment)
	s.attachment.output.end()
	return nil
}

// endStdin ends a client's input. With StdinOnce and no TTY, the container's input ends as well, and a program with
// Echo exits. Otherwise the attachment ends.
func (e *Engine) endStdin(a *attachment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := a.container
	switch {
	case !a.opts.Stdin || !c.running():
	case !c.config.StdinOnce || c.config.Tty:
		a.output.end()
	case c.program.Echo:
		e.exit(c, c.program.ExitCode)
	}
}
