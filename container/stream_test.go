package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestExecStreams(t *testing.T) {
	n, _ := newFakeNode(t,
		dockertest.Program{Command: "both", Exits: true, Stdout: "out", Stderr: "err", ExitCode: 3},
		dockertest.Program{Command: "copy", Echo: true, ExitCode: 4},
		dockertest.Program{Command: "nosuch", Start: errors.New("no such command")},
	)
	id := n.running("sleep")
	tests := []struct {
		command, stdin, stdout, stderr string
		code                           int
	}{
		{"both", "", "out", "err", 3},
		{"copy", "there and back", "there and back", "", 4},
		{"nosuch", "", "no such command\r\n", "", 126},
	}
	for _, tt := range tests {
		var stdout, stderr testutil.Buffer
		streams := Streams{Stdout: &stdout, Stderr: &stderr}
		if tt.stdin != "" {
			streams.Stdin = strings.NewReader(tt.stdin)
		}
		code, err := n.Exec(t.Context(), id, []string{tt.command}, streams)
		testutil.Assert(t, err == nil && code == tt.code && stdout.String() == tt.stdout &&
			stderr.String() == tt.stderr, "%s: %d, %v, %q, %q", tt.command, code, err, &stdout, &stderr)
	}
}

func TestExecStreamsRefuses(t *testing.T) {
	n, engine := newFakeNode(t)
	created := n.create(n.pod(), n.config("sleep"))
	id := n.running("sleep")
	run := func(id string, command ...string) error {
		_, err := n.Exec(t.Context(), id, command, Streams{Stdout: io.Discard})
		return err
	}
	testutil.Fails(t, run(created, "true"), errdefs.IsFailedPrecondition, "created container")
	testutil.Fails(t, run("feedbeef", "true"), errdefs.IsNotFound, "unknown container")
	testutil.Fails(t, run(id), errdefs.IsInvalidArgument, "no command")
	engine.Inject("CreateExec", dockertest.Fault{Err: errdefs.ErrConflict, Times: 1})
	testutil.Fails(t, run(id, "true"), errdefs.IsFailedPrecondition, "container that has just ended")
}

func TestExecTerminal(t *testing.T) {
	n, engine := newFakeNode(t, dockertest.Program{Command: "shell"})
	id := n.running("sleep")
	check := testutil.NoMoreGoroutines(t)
	// The terminal appears only at the third resize. A size of zero is ignored.
	engine.Inject("ResizeExec", dockertest.Fault{Err: errdefs.ErrConflict, Times: 2})
	sizes := make(chan Size, 2)
	sizes <- Size{}
	sizes <- Size{Width: 132, Height: 43}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := testutil.Try(func() (int, error) {
		return n.Exec(ctx, id, []string{"shell"}, Streams{Stdout: io.Discard, TTY: true, Resize: sizes})
	})
	testutil.Until(t, "the terminal is resized", func() bool {
		got := engine.ExecTerminals(id)
		return len(got) == 1 && got[0] == docker.TerminalSize{Width: 132, Height: 43}
	})
	cancel() // the client is gone
	testutil.FailsWith(t, <-done, context.Canceled, "Exec")
	check()
}

// A slow client gets all output, however long ago the command has ended.
func TestExecWaitsForASlowClient(t *testing.T) {
	text := strings.Repeat("x", 64<<10)
	n, _ := newFakeNode(t, dockertest.Program{Command: "talk", Exits: true, Stdout: text})
	slow := &slowWriter{}
	_, err := n.Exec(t.Context(), n.running("sleep"), []string{"talk"}, Streams{Stdout: slow})
	testutil.Must(t, err)
	testutil.Assert(t, slow.size == len(text), "%d of %d bytes", slow.size, len(text))
}

type slowWriter struct{ size int }

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(2 * dryOutput)
	w.size += len(p)
	return len(p), nil
}

func TestMeterTellsWaitingFromWorking(t *testing.T) {
	reader, writer := io.Pipe()
	defer writer.Close()
	m := &meter{Reader: reader}
	begin := time.Now()
	testutil.Equal(t, m.waited(begin), 0, "the wait of a meter without a reader")
	read := make(chan struct{})
	go func() { _, _ = m.Read(make([]byte, 1)); close(read) }()
	testutil.Until(t, "the read waits", func() bool { return m.waited(begin) > 20*time.Millisecond })
	waited := m.waited(time.Now())
	testutil.Assert(t, waited <= 20*time.Millisecond, "the meter has waited for %v since now", waited)
	_, _ = writer.Write([]byte("x"))
	<-read
	if waited := m.waited(begin); waited != 0 || m.bytes.Load() != 1 {
		t.Errorf("after the data: waited for %v, %d bytes", waited, m.bytes.Load())
	}
}

func TestAttachStreams(t *testing.T) {
	n, engine := newFakeNode(t, dockertest.Program{Command: "copy", Echo: true, ExitCode: 4})
	pod := n.pod()
	config := n.config("copy")
	config.Stdin, config.StdinOnce = true, true
	id := n.create(pod, config)
	attach := func(streams Streams) error { return n.Attach(t.Context(), id, streams) }
	testutil.Fails(t, attach(Streams{Stdout: io.Discard}), errdefs.IsFailedPrecondition, "created container")
	n.start(id)
	check := testutil.NoMoreGoroutines(t)
	var stdout, stderr testutil.Buffer
	input, typed := io.Pipe()
	done := make(chan error, 1)
	// The container has no terminal, so the client's TTY has no effect.
	go func() { done <- attach(Streams{Stdin: input, Stdout: &stdout, Stderr: &stderr, TTY: true}) }()
	fmt.Fprint(typed, "hello")
	testutil.Until(t, "the input comes back", func() bool { return stdout.String() == "hello" })
	testutil.Must(t, engine.Print(id, "", "a warning"))
	testutil.Until(t, "the warning comes on stderr", func() bool { return stderr.String() == "a warning" })
	_ = typed.Close() // stdin_once: the container's input ends, and with it the container
	testutil.Check(t, <-done, "Attach")
	check()
	testutil.Until(t, "the container ends", func() bool {
		c, err := n.cache.Snapshot().Container(id)
		return err == nil && c.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED && c.Status.ExitCode == 4
	})
	testutil.Fails(t, attach(Streams{Stdout: io.Discard}), errdefs.IsFailedPrecondition, "exited container")
	testutil.Fails(t, n.Attach(t.Context(), "feedbeef", Streams{Stdout: io.Discard}), errdefs.IsNotFound,
		"unknown container")
}

func TestAttachTerminal(t *testing.T) {
	n, engine := newFakeNode(t)
	config := n.config("shell")
	config.Stdin, config.Tty = true, true
	id := n.started(n.pod(), config)
	check := testutil.NoMoreGoroutines(t)
	sizes := make(chan Size, 1)
	sizes <- Size{Width: 132, Height: 43}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout testutil.Buffer
	done := testutil.Go(func() error { return n.Attach(ctx, id, Streams{Stdout: &stdout, TTY: true, Resize: sizes}) })
	testutil.Until(t, "the terminal is resized", func() bool {
		return engine.ContainerTerminal(id) == docker.TerminalSize{Width: 132, Height: 43}
	})
	testutil.Must(t, engine.Print(id, "$ ", ""))
	testutil.Until(t, "the prompt comes", func() bool { return stdout.String() == "$ " })
	cancel() // the client is gone
	err := <-done
	testutil.Assert(t, errors.Is(err, context.Canceled), "Attach: %v", err)
	check()
	c, err := n.cache.Snapshot().Container(id)
	testutil.Assert(t, err == nil && c.Status.Running, "the container ended with its client: %v, %v", c, err)
}
