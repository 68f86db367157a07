package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/state"
)

const (
	// quietOutput is the silence after which the output of an ended command counts as complete, if ctx ends during
	// waitOutput.
	quietOutput = 200 * time.Millisecond
	// maxLateOutput bounds the wait for the output of a command that has ended. The command itself has left no more
	// than the pipes hold. Even a busy engine has delivered that much by then.
	maxLateOutput = 15 * time.Second
	// killTimeout bounds the killing of a command whose caller is gone.
	killTimeout = 10 * time.Second
)

// process is one command in a container with its output.
type process struct {
	service     *Service
	containerID string
	run         run
	output      *meter // the output of run
	stdout      *outputBuffer
	stderr      *outputBuffer
	// copied is closed when the output has ended.
	copied chan struct{}
}

// startProcess starts a command and begins to collect its output. The caller closes the process.
func (s *Service) startProcess(ctx context.Context, c *state.Container, command []string) (*process, error) {
	p, err := s.openProcess(ctx, c, docker.ExecOptions{Command: command, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	p.stdout, p.stderr = &outputBuffer{limit: maxOutput, budget: &s.output}, &outputBuffer{limit: maxOutput,
		budget: &s.output}
	go p.copy(ctx)
	return p, nil
}

// openProcess starts a command. The caller must read its output, close copied at the end of the output, and close the
// process.
func (s *Service) openProcess(ctx context.Context, c *state.Container, options docker.ExecOptions) (*process, error) {
	started, err := s.startRun(ctx, c, options)
	if errdefs.IsConflict(err) {
		return nil, fmt.Errorf("container %s does not run any more, or is paused: %w: %w", c.ID,
			errdefs.ErrFailedPrecondition, err)
	}
	if err != nil {
		return nil, fmt.Errorf("running %q in container %s: %w", options.Command[0], c.ID, err)
	}
	return &process{
		service:     s,
		containerID: c.ID,
		run:         started,
		output:      &meter{Reader: started},
		copied:      make(chan struct{}),
	}, nil
}

// copy collects the output until it ends or close is called.
func (p *process) copy(ctx context.Context) {
	defer close(p.copied)
	if err := docker.Demultiplex(p.stdout, p.stderr, p.output); err != nil {
		log.G(ctx).WithError(err).WithField("containerID", p.containerID).Debug("output of command was cut off")
	}
}

// close ends the collection of output, waits for its goroutine, and returns the output's share to the budget.
func (p *process) close() {
	_ = p.run.Close() // nothing is written to it
	<-p.copied
	for _, output := range []*outputBuffer{p.stdout, p.stderr} {
		if output != nil {
			output.release()
		}
	}
}

// wait returns the command's exit code when it has ended. If ctx or the engine's answers end first, the command is
// killed.
func (p *process) wait(ctx context.Context) (int, error) {
	code, err := p.run.waitExit(ctx, p.copied)
	if err == nil {
		return code, p.waitOutput(ctx)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return 0, errors.Join(err, p.service.killRun(ctx, p.run, p.containerID, p.copied))
}

// waitOutput waits for the rest of the output of a command that has ended, at most for maxLateOutput. A child may keep
// the stream open and write to it for ever. Output that comes later than dryOutput after the command's end counts as a
// child's. waitOutput fails if ctx ends sooner, unless the output has been silent for quietOutput.
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

// killRun ends a command and its descendants, on a context of its own. copied is closed when its output has ended. The
// error has no type. Otherwise a kubelet would take the end of killTimeout for the command's own time limit, and count
// a failed probe.
func (s *Service) killRun(ctx context.Context, r run, containerID string, copied <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	pid, err := r.pid(ctx, copied)
	if err != nil {
		return fmt.Errorf("finding the command to kill it: %v", err)
	}
	if pid == 0 {
		return nil
	}
	inSandbox, err := s.signalInSandbox(ctx, containerID, pid, unix.SIGKILL)
	if err == nil && !inSandbox {
		err = s.killTree(ctx, pid, containerID)
	}
	if err != nil {
		return fmt.Errorf("killing the command: %v", err)
	}
	return nil
}

// signalInSandbox signals a command in a sandbox of its runtime. It returns false for a command in the container's
// cgroup, or one that has ended. It fails for any other command, because no signal would reach it.
func (s *Service) signalInSandbox(
	ctx context.Context, containerID string, pid int, signal unix.Signal,
) (bool, error) {
	if proctable.InContainer(pid, containerID) {
		return false, nil
	}
	snapshot := s.opts.Cache.Snapshot()
	c, err := snapshot.Container(containerID)
	if err != nil { // removed meanwhile: its commands have ended
		return false, docker.IgnoreNotFound(err)
	}
	pod, err := snapshot.Pod(c.SandboxID)
	if err != nil {
		return false, docker.IgnoreNotFound(err)
	}
	if s.opts.Sandboxes != nil {
		if inSandbox, err := s.opts.Sandboxes.Signal(ctx, pod, containerID, pid, signal); inSandbox || err != nil {
			return inSandbox, err
		}
	}
	// For a command in a virtual machine (Kata Containers), the engine reports a process outside of the machine.
	if proctable.Lives(pid) {
		return false, fmt.Errorf("process %d is not in the container's cgroup and gets no signal", pid)
	}
	return false, nil
}
