package container

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/docker"
)

const (
	// quietOutput is the silence at the deadline after which the output of an ended command counts as complete.
	quietOutput = 200 * time.Millisecond
	// maxLateOutput is how long the output of a command that has ended is waited for in all. The command itself has
	// left no more than the pipes hold, which even a busy engine has handed on by then.
	maxLateOutput = 15 * time.Second
	// killTimeout bounds the killing of a command whose caller is gone.
	killTimeout = 10 * time.Second
	// appearTimeout is how long a command whose start was cut short may take to appear.
	appearTimeout = 2 * time.Second
)

// inspectBackoff paces the inspects of a running command. They are a fallback: streams, events and the process usually
// show its end.
var inspectBackoff = wait.Backoff{
	Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 30 * time.Second,
}

// pidBackoff is the time between two inspects of a command that the engine knows no process id of.
var pidBackoff = wait.Backoff{
	Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 500 * time.Millisecond,
}

// process is one command in a container.
type process struct {
	service     *Service
	engine      docker.Engine
	containerID string
	execID      string
	stream      docker.Stream
	output      *meter             // the stream's direction to us
	cancel      context.CancelFunc // of the stream's context
	stdout      *outputBuffer
	stderr      *outputBuffer
	// copied is closed when the output has ended.
	copied chan struct{}
	// exited is closed at the engine's event.
	exited  <-chan struct{}
	unwatch func()
}

// startProcess starts a command and begins to collect its output. The caller closes the process.
func (s *Service) startProcess(ctx context.Context, containerID string, command []string) (*process, error) {
	p, err := s.openProcess(ctx, containerID, docker.ExecOptions{Command: command, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	p.stdout, p.stderr = &outputBuffer{limit: maxOutput, budget: &s.output}, &outputBuffer{limit: maxOutput, budget: &s.output}
	go p.copy(ctx)
	return p, nil
}

// openProcess starts a command. The caller sees to it that its output is read,
// that copied is closed at the end of that, and closes the process.
func (s *Service) openProcess(ctx context.Context, containerID string, options docker.ExecOptions) (*process, error) {
	execID, err := s.opts.Engine.CreateExec(ctx, containerID, options)
	if err != nil {
		return nil, err
	}
	p := &process{
		service:     s,
		engine:      s.opts.Engine,
		containerID: containerID,
		execID:      execID,
		copied:      make(chan struct{}),
	}
	// The watch begins before the command: its end cannot be missed.
	p.exited, p.unwatch = s.opts.Cache.WatchExec(execID)
	if err := p.attach(ctx, options); err != nil {
		p.unwatch()
		return nil, err
	}
	return p, nil
}

// attach starts the command. Its stream outlives ctx; when ctx ends, the command is killed first. When ctx ends during
// the start the command may run all the same, and is killed here.
func (p *process) attach(ctx context.Context, options docker.ExecOptions) error {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel)
	stream, err := p.engine.AttachExec(streamCtx, p.execID, options)
	if keep() && err == nil {
		p.stream, p.output, p.cancel = stream, &meter{Reader: stream}, cancel
		return nil
	}
	cancel()
	if err == nil {
		stream.Close() // nothing is written to it
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), p.kill(ctx))
	}
	return err
}

// copy runs until the output ends or close.
func (p *process) copy(ctx context.Context) {
	defer close(p.copied)
	if err := docker.Demultiplex(p.stdout, p.stderr, p.output); err != nil {
		log.G(ctx).WithError(err).WithField("execID", p.execID).Debug("output of command was cut off")
	}
}

// close ends the collection of output, waits for its goroutine, and returns the output's share to the budget.
func (p *process) close() {
	p.unwatch()
	p.stream.Close() // nothing is written to it
	p.cancel()
	<-p.copied
	for _, output := range []*outputBuffer{p.stdout, p.stderr} {
		if output != nil {
			output.release()
		}
	}
}

// wait returns the command's exit code when it has ended. When ctx ends first the command is killed.
func (p *process) wait(ctx context.Context) (int, error) {
	code, err := p.waitExit(ctx)
	if ctx.Err() != nil && err != nil {
		return 0, errors.Join(ctx.Err(), p.kill(ctx))
	}
	if err != nil {
		return 0, err
	}
	return code, p.waitOutput(ctx)
}

// waitExit asks the engine for the command's exit code at its event and when its output has ended. The looks in between
// are a slow net behind both.
func (p *process) waitExit(ctx context.Context) (int, error) {
	exited, copied := p.exited, p.copied
	backoff := inspectBackoff
	look := time.NewTimer(backoff.Step())
	defer look.Stop()
	for {
		again := false
		select {
		case <-exited:
			exited = nil // once
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-copied:
			copied = nil // once
		case <-look.C:
			again = true
			look.Reset(backoff.Step())
		}
		state, err := p.engine.InspectExec(ctx, p.execID)
		if err != nil {
			return 0, p.lost(err)
		}
		if ended(state, copied == nil, again) {
			return state.ExitCode, nil
		}
	}
}

// ended reports whether the engine says that the command has ended. Before the start the engine says "not running",
// too. If the output has ended and the state still looks like that, the engine may not have recorded the end yet: later
// says that this is a second look, which is believed.
func ended(state docker.ExecState, outputEnded, later bool) bool {
	switch {
	case state.Running:
		return false
	case state.PID != 0:
		return true
	case !outputEnded:
		return false
	default:
		return state.ExitCode != 0 || later
	}
}

// lost is the error of a command that the engine has no answer about.
func (p *process) lost(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("the container ended while the command ran: %w", errdefs.ErrUnknown)
	}
	return err
}

// waitOutput waits for the rest of the output of a command that has ended, at most for maxLateOutput. A child may keep
// the stream open and write to it for ever. It fails when ctx ends within dryOutput while output still comes; later
// output counts as a child's.
func (p *process) waitOutput(ctx context.Context) error {
	ended := time.Now()
	limited, cancel := context.WithTimeout(ctx, maxLateOutput)
	defer cancel()
	err := p.output.drain(limited, p.copied, dryOutput)
	if err != nil && (time.Since(ended) >= dryOutput || p.output.waited(ended) >= quietOutput) {
		return nil
	}
	return err
}

// kill ends the command and its descendants, on a context of its own.
func (p *process) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	pid, err := p.pid(ctx)
	if err != nil || pid == 0 {
		return err
	}
	if err := p.service.killTree(ctx, pid, p.containerID); err != nil {
		return fmt.Errorf("killing the command: %w", err)
	}
	return nil
}

// pid returns the command's process id on this node, 0 when it has ended or never
// ran. The engine knows it shortly after the start.
func (p *process) pid(ctx context.Context) (pid int, err error) {
	appears := time.Now().Add(appearTimeout)
	err = pidBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		state, err := p.engine.InspectExec(ctx, p.execID)
		switch {
		case errdefs.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		case state.PID == 0 && !closed(p.copied):
			return time.Now().After(appears), nil
		case state.Running:
			pid = state.PID
		}
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("finding the command to kill it: %w", err)
	}
	return pid, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
