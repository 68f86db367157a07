package dockertest

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// execution is one command in a container. The engine's lock guards it.
type execution struct {
	id        string
	container *container
	opts      docker.ExecOptions
	program   Program
	started   bool
	running   bool
	pid       int
	exitCode  int
	output    *output
	terminal  docker.TerminalSize
}

// CreateExec implements docker.Execs.
func (e *Engine) CreateExec(ctx context.Context, containerID string, opts docker.ExecOptions) (string, error) {
	return ask(ctx, e, "CreateExec", containerID, func() (string, error) { return e.createExec(containerID, opts) })
}

func (e *Engine) createExec(containerID string, opts docker.ExecOptions) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(containerID)
	if err != nil {
		return "", err
	}
	if !c.running() {
		return "", fmt.Errorf("%w: Container %s is not running", errdefs.ErrConflict, c.id)
	}
	if len(opts.Command) == 0 {
		return "", fmt.Errorf("%w: No exec command specified", errdefs.ErrInvalidArgument)
	}
	program, found := e.program(c.imageName, opts.Command)
	if !found {
		program.Exits = true
	}
	x := &execution{id: e.newID(), container: c, opts: opts, program: program,
		output: newOutput(opts.Stdout, opts.Stderr, opts.TTY)}
	e.execs[x.id] = x
	return x.id, nil
}

// AttachExec implements docker.Execs. For a command that cannot be started (Program.Start), the output is the error and
// the exit code is 126, as with Docker Engine before 28.0.
func (e *Engine) AttachExec(ctx context.Context, execID string, _ docker.ExecOptions) (docker.Stream, error) {
	x, err := ask(ctx, e, "AttachExec", execID, func() (*execution, error) { return e.startExec(execID) })
	if err != nil {
		return nil, err
	}
	return newStream(ctx, e, x), nil
}

func (e *Engine) startExec(execID string) (*execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.execs[execID]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: No such exec instance: %s", errdefs.ErrNotFound, execID)
	case x.started:
		return nil, fmt.Errorf("%w: exec %s has already run", errdefs.ErrConflict, execID)
	case !x.container.running():
		return nil, fmt.Errorf("%w: Container %s is not running", errdefs.ErrConflict, x.container.id)
	}
	x.started = true
	if failure := x.program.Start; failure != nil {
		x.exitCode = 126
		x.output.print(streamStdout, failure.Error()+"\r\n")
		x.output.end()
		return x, nil
	}
	x.running, x.pid = true, e.newPID()
	x.output.print(streamStdout, x.program.Stdout)
	x.output.print(streamStderr, x.program.Stderr)
	if x.program.Exits && !x.program.Echo {
		e.later(x.program.ExitAfter, func() { e.endExecution(x, x.program.ExitCode) })
	}
	return x, nil
}

// endExecution ends a command with its exit code and event. The caller holds
// the lock.
func (e *Engine) endExecution(x *execution, code int) {
	if !x.running {
		return
	}
	x.running, x.exitCode = false, code
	x.output.end()
	e.emit(docker.Event{Kind: docker.ExecDied, ExecID: x.id}, x.container)
}

// endInput ends a command's standard input.
func (e *Engine) endInput(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.program.Echo {
		e.endExecution(x, x.program.ExitCode)
	}
}

// InspectExec implements docker.Execs.
func (e *Engine) InspectExec(ctx context.Context, execID string) (docker.ExecState, error) {
	return ask(ctx, e, "InspectExec", execID, func() (docker.ExecState, error) { return e.execState(execID) })
}

func (e *Engine) execState(execID string) (docker.ExecState, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.execs[execID]
	if !ok {
		return docker.ExecState{}, fmt.Errorf("%w: No such exec instance: %s", errdefs.ErrNotFound, execID)
	}
	return docker.ExecState{Running: x.running, ExitCode: x.exitCode, PID: x.pid}, nil
}

// Numbers of the streams in the multiplexed form.
const (
	streamStdout = 1
	streamStderr = 2
)

// stream is the caller's end of a command.
type stream struct {
	ctx    context.Context
	engine *Engine
	exec   *execution
	detach func() bool
}

// newStream returns a stream that ends with ctx, as the real client's does.
func newStream(ctx context.Context, e *Engine, x *execution) *stream {
	s := &stream{ctx: ctx, engine: e, exec: x}
	s.detach = context.AfterFunc(ctx, x.output.end)
	return s
}

func (s *stream) Read(p []byte) (int, error) { return s.exec.output.readIn(s.ctx, p) }

func (s *stream) Write(p []byte) (int, error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if !s.exec.running || !s.exec.opts.Stdin {
		return 0, fmt.Errorf("%w: the command takes no input", io.ErrClosedPipe)
	}
	if s.exec.program.Echo {
		s.exec.output.print(streamStdout, string(p))
	}
	return len(p), nil
}

func (s *stream) CloseWrite() error {
	s.engine.endInput(s.exec)
	return nil
}

func (s *stream) Close() error {
	s.detach()
	s.exec.output.end()
	s.engine.endInput(s.exec)
	return nil
}
