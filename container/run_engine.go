package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/docker"
)

// appearTimeout is how long a command whose start was cut short may take to appear.
const appearTimeout = 2 * time.Second

// inspectBackoff paces the inspects of a running command. They are a fallback: streams, events and the process usually
// show its end.
var inspectBackoff = wait.Backoff{
	Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 30 * time.Second,
}

// pidBackoff is the time between two inspects of a command whose process id the engine does not report yet.
var pidBackoff = wait.Backoff{
	Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 500 * time.Millisecond,
}

// engineRun is a command that the engine started.
type engineRun struct {
	docker.Stream
	engine docker.Engine
	execID string
	cancel context.CancelFunc // of the stream's context
	// exited is closed at the engine's event of the command's end.
	exited  <-chan struct{}
	unwatch func()
	// seen is the process id that waitExit saw last, 0 for none. pid returns it when the engine no longer knows the
	// command, as after a restart of the engine.
	seen int
}

// startInEngine starts a command through the engine.
func (s *Service) startInEngine(ctx context.Context, containerID string, options docker.ExecOptions) (run, error) {
	execID, err := s.opts.Engine.CreateExec(ctx, containerID, options)
	if err != nil {
		return nil, err
	}
	r := &engineRun{engine: s.opts.Engine, execID: execID}
	// The watch begins before the command: its end cannot be missed.
	r.exited, r.unwatch = s.opts.Cache.WatchExec(execID)
	if err := r.attach(ctx, options); err != nil {
		r.unwatch()
		err = cmp.Or(ctx.Err(), err)
		if ctx.Err() != nil || errdefs.IsUnavailable(err) { // the command may run: perhaps only the answer is lost
			err = errors.Join(err, s.killRun(ctx, r, containerID, nil))
		}
		return nil, err
	}
	return r, nil
}

// attach starts the command. Its stream outlives ctx.
func (r *engineRun) attach(ctx context.Context, options docker.ExecOptions) error {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel)
	stream, err := r.engine.AttachExec(streamCtx, r.execID, options)
	if keep() && err == nil {
		r.Stream, r.cancel = stream, cancel
		return nil
	}
	cancel()
	if err == nil {
		stream.Close() // nothing is written to it
		return ctx.Err()
	}
	return err
}

// Close implements run.
func (r *engineRun) Close() error {
	r.unwatch()
	defer r.cancel()
	return r.Stream.Close()
}

func (r *engineRun) resize(ctx context.Context, size docker.TerminalSize) error {
	return r.engine.ResizeExec(ctx, r.execID, size)
}

// waitExit asks the engine for the command's exit code at the event of its end, and when its output has ended. It also
// asks from time to time, in case neither comes.
func (r *engineRun) waitExit(ctx context.Context, copied <-chan struct{}) (int, error) {
	exited := r.exited
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
		state, err := r.engine.InspectExec(ctx, r.execID)
		if err != nil {
			return 0, lost(err)
		}
		r.seen = cmp.Or(state.PID, r.seen)
		if ended(state, copied == nil, again) {
			return state.ExitCode, nil
		}
	}
}

// ended reports whether the command has ended. A command that is not running and has no process id may not have started
// yet. Once its output has ended, it counts as ended if its exit code is not 0. With exit code 0, the engine may not
// have recorded the end yet. later says that the caller has asked again after a pause: then the command counts as
// ended.
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

// lost is the error of a command that the engine no longer has. It has the type ErrFailedPrecondition, like the error
// of a command for a container that does not run.
func lost(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("the engine no longer knows the command (the container ended or the engine restarted): %w",
			errdefs.ErrFailedPrecondition)
	}
	return err
}

// pid implements run. The engine knows the id shortly after the start. With live-restore, a command outlives its
// engine.
func (r *engineRun) pid(ctx context.Context, copied <-chan struct{}) (pid int, err error) {
	appears := time.Now().Add(appearTimeout)
	err = pidBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		state, err := r.engine.InspectExec(ctx, r.execID)
		switch {
		case errdefs.IsNotFound(err), err != nil && r.seen != 0:
			pid = r.seen
			return true, nil
		case err != nil:
			return false, err
		case state.PID == 0 && !closed(copied):
			return time.Now().After(appears), nil
		case state.Running:
			pid = state.PID
		}
		return true, nil
	})
	return pid, err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
