package dockertest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// exec runs a command to its end and returns its output and state.
func (s *suite) exec(
	t *testing.T, containerID string, opts docker.ExecOptions,
) (stdout, stderr string, state docker.ExecState) {
	t.Helper()
	id, stream := s.startExec(withPatience(t), t, containerID, opts)
	var out, errs bytes.Buffer
	testutil.Must(t, docker.Demultiplex(&out, &errs, stream), "Demultiplex")
	// The engine learns of the end a moment after the streams end.
	testutil.Until(t, "the command ends", func() bool {
		now, err := s.Engine.InspectExec(withPatience(t), id)
		state = now
		return err == nil && !state.Running
	})
	return out.String(), errs.String(), state
}

// startExec starts a command whose stream ends with ctx, and at the end of the test.
func (s *suite) startExec(
	ctx context.Context, t *testing.T, containerID string, opts docker.ExecOptions,
) (execID string, stream docker.Stream) {
	t.Helper()
	execID, err := s.Engine.CreateExec(withPatience(t), containerID, opts)
	testutil.Must(t, err, "CreateExec")
	stream, err = s.Engine.AttachExec(ctx, execID, opts)
	testutil.Must(t, err, "AttachExec")
	t.Cleanup(func() { _ = stream.Close() })
	return execID, stream
}

func testExec(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	command := []string{"sh", "-c", talkativeCommand}
	stdout, stderr, state := s.exec(t, id, docker.ExecOptions{Command: command, Stdout: true, Stderr: true})
	testutil.Assert(t, stdout == "to stdout\n" && stderr == "to stderr\n" && state.ExitCode == 5 && state.PID > 0,
		"got %q and %q, %+v", stdout, stderr, state)
	stdout, stderr, state = s.exec(t, id, docker.ExecOptions{Command: command, Stderr: true})
	testutil.Assert(t, stdout == "" && stderr == "to stderr\n" && state.ExitCode == 5,
		"with stderr alone: got %q and %q, %+v", stdout, stderr, state)
}

func testExecInput(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	opts := docker.ExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}
	_, stream := s.startExec(withPatience(t), t, id, opts)
	_, err := io.WriteString(stream, "there and back")
	testutil.Must(t, err)
	testutil.Must(t, stream.CloseWrite())
	var out bytes.Buffer
	testutil.Must(t, docker.Demultiplex(&out, nil, stream))
	testutil.Assert(t, out.String() == "there and back", "cat answered %q", out.String())
}

func testExecTTY(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	opts := docker.ExecOptions{Command: []string{"sh", "-c", talkativeCommand}, TTY: true, Stdout: true, Stderr: true}
	_, stream := s.startExec(withPatience(t), t, id, opts)
	raw, err := io.ReadAll(stream)
	testutil.Must(t, err)
	// A terminal ends lines with CR LF.
	testutil.Assert(t, strings.ReplaceAll(string(raw), "\r\n", "\n") == "to stdout\nto stderr\n", "got %q", raw)
}

func testExecRefused(t *testing.T, s *suite) {
	opts := docker.ExecOptions{Command: []string{"true"}, Stdout: true}
	id := s.create(t, s.shell(longCommand))
	_, err := s.Engine.CreateExec(withPatience(t), id, opts)
	wantError(t, "in a container that does not run", err, errdefs.ErrConflict)
	_, err = s.Engine.CreateExec(withPatience(t), s.name(), opts)
	wantError(t, "in no container", err, errdefs.ErrNotFound)
	_, err = s.Engine.AttachExec(withPatience(t), "0123456789abcdef", opts)
	wantError(t, "attach to nothing", err, errdefs.ErrNotFound)
	_, err = s.Engine.InspectExec(withPatience(t), "0123456789abcdef")
	wantError(t, "inspect nothing", err, errdefs.ErrNotFound)

	testutil.Must(t, s.Engine.StartContainer(withPatience(t), id))
	_, err = s.Engine.CreateExec(withPatience(t), id, docker.ExecOptions{})
	wantError(t, "without a command", err, errdefs.ErrInvalidArgument)
	execID, err := s.Engine.CreateExec(withPatience(t), id, opts)
	testutil.Must(t, err)
	testutil.Must(t, s.Engine.StopContainer(withPatience(t), id, 0))
	_, err = s.Engine.AttachExec(withPatience(t), execID, opts)
	testutil.Assert(t, err != nil, "a command starts in a container that has exited")
}

func testExecMissingProgram(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	opts := docker.ExecOptions{Command: []string{missingProgram}, Stdout: true, Stderr: true}
	stdout, _, state := s.exec(t, id, opts)
	testutil.Assert(t, state.ExitCode == 126 || state.ExitCode == 127,
		"the exit code of a missing program is %d", state.ExitCode)
	testutil.Assert(t, strings.Contains(stdout, missingProgram), "the output of a missing program is %q", stdout)
}

func testExecContext(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	opts := docker.ExecOptions{Command: []string{"sh", "-c", longCommand}, Stdout: true}
	ctx, cancel := context.WithCancel(withPatience(t))
	defer cancel()
	execID, stream := s.startExec(ctx, t, id, opts)
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := io.ReadAll(stream)
	wantError(t, "reading when the context has ended", err, context.Canceled)
	state, err := s.Engine.InspectExec(withPatience(t), execID)
	testutil.Assert(t, err == nil && state.Running, "the command ended with its stream: %+v, %v", state, err)
}
