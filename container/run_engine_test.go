package container

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// restartedEngine answers one inspect of a command with its process id, and each later one with an error.
type restartedEngine struct {
	docker.Engine
	pid int
	err error
}

func (e *restartedEngine) InspectExec(context.Context, string) (docker.ExecState, error) {
	state := docker.ExecState{Running: true, PID: e.pid}
	if e.pid = 0; state.PID == 0 {
		return docker.ExecState{}, e.err
	}
	return state, nil
}

// forgetfulEngine loses the answer to the start of a command, which runs as process pid until it ends.
type forgetfulEngine struct {
	docker.Engine
	pid int
}

func (e *forgetfulEngine) CreateExec(context.Context, string, docker.ExecOptions) (string, error) {
	return "exec", nil
}

func (e *forgetfulEngine) AttachExec(context.Context, string, docker.ExecOptions) (docker.Stream, error) {
	return nil, errdefs.ErrUnavailable
}

func (e *forgetfulEngine) InspectExec(context.Context, string) (docker.ExecState, error) {
	return docker.ExecState{Running: proctable.Lives(e.pid), PID: e.pid}, nil
}

// A command whose start the engine did not answer does not run on, although its caller still waits.
func TestCommandWhoseStartIsNotAnsweredEnds(t *testing.T) {
	const everywhere = "/"
	leader, child := startSession(t)
	s := &Service{pidfdOpen: unix.PidfdOpen,
		opts: Options{Engine: &forgetfulEngine{pid: leader}, Cache: state.New(state.Options{})}}
	_, err := s.startInEngine(t.Context(), everywhere, docker.ExecOptions{})
	testutil.Assert(t, errdefs.IsUnavailable(err), "the error is %v", err)
	testutil.Assert(t, !proctable.Lives(leader) && !proctable.Lives(child), "the command runs on")
}

// With live-restore, a command outlives a restart of its engine, which then no longer knows the command. It does not
// run on without a client.
func TestCommandOfARestartedEngineEnds(t *testing.T) {
	const everywhere = "/"
	for name, tc := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"restarted": {errdefs.ErrNotFound, errdefs.IsFailedPrecondition},
		"away":      {errdefs.ErrUnavailable, errdefs.IsUnavailable},
	} {
		for way, end := range map[string]func(p *process) error{
			"ExecSync": func(p *process) error {
				close(p.copied)
				_, err := p.wait(t.Context())
				return err
			},
			"Exec": func(p *process) error {
				_, err := p.serve(t.Context(), Streams{})
				return err
			},
		} {
			t.Run(name+" during "+way, func(t *testing.T) {
				leader, child := startSession(t)
				exited := make(chan struct{})
				close(exited)
				stream := &refusedRun{Reader: strings.NewReader("")}
				r := &engineRun{Stream: stream, engine: &restartedEngine{pid: leader, err: tc.err}, exited: exited,
					cancel: func() {}, unwatch: func() {}}
				s := &Service{pidfdOpen: unix.PidfdOpen}
				err := end(&process{service: s, containerID: everywhere, run: r, output: &meter{Reader: r},
					copied: make(chan struct{})})
				testutil.Assert(t, tc.is(err), "the error is %v", err)
				testutil.Until(t, "the command has ended", func() bool {
					return !proctable.Lives(leader) && !proctable.Lives(child)
				})
			})
		}
	}
}
