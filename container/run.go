package container

import (
	"context"
	"errors"
	"sync"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// run is one command in a container. The engine started it, or the OCI runtime did. Close ends the streams and leaves
// the command alone.
type run interface {
	docker.Stream
	// waitExit returns the command's exit code when it has ended. copied is closed when its output has ended.
	waitExit(ctx context.Context, copied <-chan struct{}) (int, error)
	// pid returns the command's process id on this node, 0 when it has ended or never ran.
	pid(ctx context.Context, copied <-chan struct{}) (int, error)
	// resize sets the size of the command's terminal.
	resize(ctx context.Context, size docker.TerminalSize) error
}

// CommandWay says how commands were run since the start of this program.
type CommandWay struct {
	// Runtime is the OCI runtime that ran the last command without the engine, empty for none.
	Runtime string `json:"runtime,omitempty"`
	// ThroughRuntime and ThroughEngine are counts of commands.
	ThroughRuntime uint64 `json:"throughRuntime"`
	ThroughEngine  uint64 `json:"throughEngine"`
	// EngineReason is why the last command through the engine needed it.
	EngineReason string `json:"engineReason,omitempty"`
}

// commandWay is a CommandWay for concurrent use.
type commandWay struct {
	mu   sync.Mutex
	seen CommandWay
	// logged has the reasons for use of the engine that are in the log already.
	logged map[string]bool
}

// maxReasons is the largest number of reasons that are logged.
const maxReasons = 32

func (w *commandWay) runtime(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Runtime = kind
	w.seen.ThroughRuntime++
}

// engine counts a command that needs the engine, and reports whether the reason is to be logged. Each reason is logged
// once.
func (w *commandWay) engine(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.EngineReason = reason
	w.seen.ThroughEngine++
	if w.logged[reason] || len(w.logged) == maxReasons {
		return false
	}
	if w.logged == nil {
		w.logged = map[string]bool{}
	}
	w.logged[reason] = true
	return true
}

// CommandWay returns how commands were run so far.
func (s *Service) CommandWay() CommandWay {
	s.way.mu.Lock()
	defer s.way.mu.Unlock()
	return s.way.seen
}

// startRun starts a command: through the OCI runtime where that is possible, through the engine otherwise.
func (s *Service) startRun(ctx context.Context, c *state.Container, options docker.ExecOptions) (run, error) {
	if s.opts.Commands == nil {
		s.way.engine("commands go through the engine by configuration")
		return s.startInEngine(ctx, c.ID, options)
	}
	started, err := s.startInRuntime(ctx, c, options)
	var refused *ociexec.StartError
	if !errors.Is(err, ociexec.ErrUnsuitable) && !errors.As(err, &refused) {
		return started, err
	}
	// Nothing of the command has run. The engine runs it, or reports why it cannot run.
	if s.way.engine(err.Error()) {
		log.G(ctx).WithError(err).WithField("containerID", c.ID).Info("command needs the engine")
	}
	return s.startInEngine(ctx, c.ID, options)
}
