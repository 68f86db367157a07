package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// runtimeRun is a command that the OCI runtime started, without the engine.
type runtimeRun struct {
	process *ociexec.Process
	// stdin is the command's input, nil for none.
	stdin io.WriteCloser
	// output is in the form of docker.Stream.
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
	process, err := s.opts.Commands.Start(container, command, files.theirs)
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
		return nil, errors.Join(ctx.Err(), s.killRun(ctx, r, c.ID, nil))
	case errors.As(err, &refused) && refused.ExitCode != 0:
		files.closeOurs()
		s.way.runtime(container.Kind)
		return newRefusedRun(refused, options.TTY), nil
	default:
		files.closeOurs()
		return nil, errors.Join(err, s.killRun(ctx, r, c.ID, nil))
	}
}

// files are the ends of a command's pipes, in the order of its descriptors.
type files struct{ ours, theirs [3]*os.File }

// newFiles makes the pipes of a command without a terminal. Without an input it has the null device, as with the
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

// closeAll closes files of which nothing is to be written any more.
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
		r.stdin, r.output = r.terminal, terminalOutput{r.terminal}
		return
	}
	if f.ours[0] != nil {
		r.stdin = f.ours[0]
	}
	r.output = multiplex(f.ours[1], f.ours[2], options)
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

// Close implements docker.Stream.
func (r *runtimeRun) Close() error {
	if r.stdin != nil {
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

// terminalOutput is what a command writes to its terminal. The kernel ends it with an error when the last process has
// closed the other side.
type terminalOutput struct{ *os.File }

// Read implements io.Reader.
func (t terminalOutput) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// framed joins two streams into one in the form of docker.Demultiplex.
type framed struct {
	*io.PipeReader
	sources []*os.File
	copying sync.WaitGroup
}

// multiplex reads both streams until both have ended, or Close. A stream that is not wanted is read, too: its writer
// does not wait.
func multiplex(stdout, stderr *os.File, options docker.ExecOptions) *framed {
	reader, writer := io.Pipe()
	f := &framed{PipeReader: reader, sources: []*os.File{stdout, stderr}}
	for i, wanted := range []bool{options.Stdout, options.Stderr} {
		f.copying.Go(func() {
			var to io.Writer = io.Discard
			if wanted {
				to = frameWriter{writer, byte(i + 1)}
			}
			_, _ = io.Copy(to, f.sources[i]) // it ends with the command, or Close
		})
	}
	go func() {
		f.copying.Wait()
		_ = writer.Close()
	}()
	return f
}

// Close ends the reading of both streams.
func (f *framed) Close() error {
	err := f.PipeReader.Close()
	closeAll(f.sources)
	f.copying.Wait()
	return err
}

// frameWriter puts the header of one stream before each piece.
type frameWriter struct {
	to     io.Writer
	stream byte
}

// Write implements io.Writer.
func (w frameWriter) Write(p []byte) (int, error) {
	if _, err := w.to.Write(frame(w.stream, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func frame(stream byte, p []byte) []byte {
	const header = 8
	text := make([]byte, header, header+len(p))
	text[0] = stream
	binary.BigEndian.PutUint32(text[4:], uint32(len(p)))
	return append(text, p...)
}

// refusedRun is a command that could not be started. Its output is the runtime's reason, as with the engine.
type refusedRun struct {
	io.Reader
	code int
}

// newRefusedRun writes the reason as the engine does. Some engines add the error's kind.
func newRefusedRun(reason *ociexec.StartError, tty bool) *refusedRun {
	text := []byte(reason.Error() + "\r\n")
	if !tty {
		text = frame(1, text)
	}
	return &refusedRun{Reader: bytes.NewReader(text), code: reason.ExitCode}
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
