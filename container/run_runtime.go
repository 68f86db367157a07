package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// runtimeRun is a command that the OCI runtime started, without the engine.
type runtimeRun struct {
	process *ociexec.Process
	// stdin is the command's input, nil for none.
	stdin io.WriteCloser
	// output is framed like docker.Stream.
	output io.ReadCloser
	// terminal is nil without one.
	terminal *os.File
}

// startInRuntime starts a command through the OCI runtime. It fails with ErrUnsuitable, or a StartError, if the command
// has not run and the engine is needed.
func (s *Service) startInRuntime(ctx context.Context, c *state.Container, options docker.ExecOptions) (run, error) {
	container, err := s.opts.Commands.Find(ctx, c.ID, c.Status.PID)
	if err != nil {
		return nil, err
	}
	files, err := newFiles(options)
	if err != nil {
		return nil, err
	}
	command := ociexec.Command{Args: options.Command, Terminal: options.TTY}
	process, err := s.opts.Commands.Start(ctx, container, command, files.theirs)
	files.closeTheirs()
	if err != nil {
		files.closeOurs()
		return nil, err
	}
	r := &runtimeRun{process: process}
	_, err = process.Started(ctx)
	var refused *ociexec.StartError
	switch {
	case err == nil:
		s.way.runtime(container.Kind)
		r.join(files, options)
		return r, nil
	case ctx.Err() != nil:
		files.closeOurs()
		process.Cancel()
		process.Release()
		err := s.killRun(ctx, r, c.ID, nil)
		if err != nil {
			s.leaveToWatch(func(ctx context.Context) { s.killLate(ctx, r, c) })
		}
		return nil, errors.Join(ctx.Err(), err)
	case errors.As(err, &refused) && refused.ExitCode != 0:
		files.closeOurs()
		features, err := s.opts.Engine.Features(ctx)
		if err != nil {
			return nil, err
		}
		s.way.runtime(container.Kind)
		return newRefusedRun(refused, min(refused.ExitCode, features.MissingProgramCode()), options.TTY), nil
	default:
		files.closeOurs()
		process.Release()
		return nil, errors.Join(err, s.killRun(ctx, r, c.ID, nil))
	}
}

// killLate kills a command whose caller is gone, once the keeper has reported its start. On a busy machine, the keeper
// may report the start only after the wait of killRun.
func (s *Service) killLate(ctx context.Context, r *runtimeRun, c *state.Container) {
	_, _ = r.process.Started(ctx) // killRun handles the same error
	if err := s.killRun(ctx, r, c.ID, nil); err != nil {
		log.G(ctx).WithError(err).WithFields(c.LogFields()).Warn("cannot kill command without a caller, it may run on")
	}
}

// files are the ends of a command's pipes, in the order of its descriptors.
type files struct{ ours, theirs [3]*os.File }

// newFiles makes the pipes of a command without a terminal. A command without input gets the null device, as with the
// engine.
func newFiles(options docker.ExecOptions) (*files, error) {
	f := &files{}
	if options.TTY {
		return f, nil
	}
	for i := range f.ours {
		if i == 0 && !options.Stdin {
			continue
		}
		reader, writer, err := os.Pipe()
		if err != nil {
			f.closeTheirs()
			f.closeOurs()
			return nil, err
		}
		if i == 0 {
			reader, writer = writer, reader
		}
		f.ours[i], f.theirs[i] = reader, writer
	}
	return f, nil
}

func (f *files) closeTheirs() { closeAll(f.theirs[:]) }

func (f *files) closeOurs() { closeAll(f.ours[:]) }

// closeAll closes files to which nothing more is written, so errors do not matter.
func closeAll(files []*os.File) {
	for _, file := range files {
		if file != nil {
			_ = file.Close()
		}
	}
}

// join makes the stream of a command that runs.
func (r *runtimeRun) join(f *files, options docker.ExecOptions) {
	if options.TTY {
		r.terminal = r.process.Terminal()
		r.stdin = r.terminal
		joined := func(_ int, w io.Writer) io.Writer { return w }
		r.output = newOutput(r.process.Ending(), []*os.File{r.terminal}, joined)
		return
	}
	if f.ours[0] != nil {
		r.stdin = f.ours[0]
	}
	wanted := []bool{options.Stdout, options.Stderr}
	r.output = newOutput(r.process.Ending(), f.ours[1:], func(i int, w io.Writer) io.Writer {
		if !wanted[i] {
			return io.Discard // the pipe is read all the same, so that the command does not block
		}
		return frameWriter{w, byte(i + 1)}
	})
}

// Read implements docker.Stream.
func (r *runtimeRun) Read(p []byte) (int, error) { return r.output.Read(p) }

// Write implements docker.Stream.
func (r *runtimeRun) Write(p []byte) (int, error) {
	if r.stdin == nil {
		return 0, fmt.Errorf("the command has no standard input: %w", errdefs.ErrFailedPrecondition)
	}
	return r.stdin.Write(p)
}

// CloseWrite implements docker.Stream.
func (r *runtimeRun) CloseWrite() error {
	if r.stdin == nil || r.terminal != nil {
		return nil
	}
	return r.stdin.Close()
}

// Close implements docker.Stream. If the command goes on, it keeps its terminal.
func (r *runtimeRun) Close() error {
	switch {
	case r.terminal != nil:
		_ = r.terminal.SetWriteDeadline(time.Now()) // a waiting write ends
	case r.stdin != nil:
		_ = r.stdin.Close() // it may be closed already
	}
	return r.output.Close()
}

func (r *runtimeRun) resize(_ context.Context, size docker.TerminalSize) error {
	return ociexec.Resize(r.terminal, size.Width, size.Height)
}

func (r *runtimeRun) waitExit(ctx context.Context, _ <-chan struct{}) (int, error) {
	return r.process.Wait(ctx)
}

func (r *runtimeRun) pid(ctx context.Context, _ <-chan struct{}) (int, error) {
	pid, err := r.process.Started(ctx)
	var refused *ociexec.StartError
	if errors.As(err, &refused) || r.process.Ended() {
		return 0, nil
	}
	if pid != 0 {
		return pid, nil
	}
	return 0, err
}

// refusedRun is a command that could not be started. Its output is the runtime's reason, as with the engine.
type refusedRun struct {
	io.Reader
	code int
}

// newRefusedRun writes the reason as the engine does. Some engines add the error's kind.
func newRefusedRun(reason *ociexec.StartError, code int, tty bool) *refusedRun {
	text := []byte(reason.Error() + "\r\n")
	if !tty {
		text = frame(1, text)
	}
	return &refusedRun{Reader: bytes.NewReader(text), code: code}
}

// Write implements docker.Stream.
func (r *refusedRun) Write(p []byte) (int, error) { return len(p), nil }

// CloseWrite implements docker.Stream.
func (r *refusedRun) CloseWrite() error { return nil }

// Close implements docker.Stream.
func (r *refusedRun) Close() error { return nil }

func (r *refusedRun) waitExit(context.Context, <-chan struct{}) (int, error) { return r.code, nil }

func (r *refusedRun) pid(context.Context, <-chan struct{}) (int, error) { return 0, nil }

func (r *refusedRun) resize(context.Context, docker.TerminalSize) error { return nil }
