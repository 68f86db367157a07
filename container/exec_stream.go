package container

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// Exec runs a command in a running container with a client's streams (CRI Exec) and returns its exit code. A command
// that cannot be started gives the exit code that shells use, 126 or 127, and the runtime's error as output.
//
// All output of the command is delivered, however slow the client is. Exec does not wait for a child that the command
// left behind with its output open.
//
// The end of ctx means that the client is gone. The command's input then ends, and its session gets SIGHUP, as when a
// terminal closes. The same happens to a command that a restarted engine no longer knows. A process that ignores SIGHUP
// (nohup) goes on, and its output is discarded.
//
// Exec fails with ErrFailedPrecondition if the container does not run.
func (s *Service) Exec(ctx context.Context, id string, command []string, streams Streams) (exitCode int, err error) {
	if len(command) == 0 {
		return 0, fmt.Errorf("cmd is empty: %w", errdefs.ErrInvalidArgument)
	}
	c, err := s.running(id)
	if err != nil {
		return 0, err
	}
	p, err := s.openProcess(ctx, c, docker.ExecOptions{
		Command: command,
		TTY:     streams.TTY,
		Stdin:   streams.Stdin != nil,
		Stdout:  streams.Stdout != nil,
		Stderr:  streams.Stderr != nil && !streams.TTY,
	})
	if err != nil {
		return 0, err
	}
	code, err := p.serve(ctx, streams)
	if err != nil {
		return 0, fmt.Errorf("running %q in container %s: %w", command[0], c.ID, err)
	}
	return code, nil
}

// running returns a container that must run.
func (s *Service) running(id string) (*state.Container, error) {
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, wrongState(c, "running")
	}
	return c, nil
}

// serve connects a client until the command or ctx ends. It returns the command's exit code.
func (p *process) serve(ctx context.Context, streams Streams) (int, error) {
	defer p.close()
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(p.copied)
		streams.copyOutput(ctx, p.output)
	}()
	go streams.copyInput(following, p.run, p.endInput(streams.TTY))
	go streams.follow(following, p.run.resize)
	code, err := p.run.waitExit(ctx, p.copied)
	if err == nil {
		_ = p.output.drain(ctx, p.copied, dryOutput) // fails only if the client is gone
		return code, nil
	}
	if errors.Is(err, ociexec.ErrKeeper) {
		err = errors.Join(err, p.service.killRun(ctx, p.run, p.containerID, p.copied))
	} else if hangUpErr := p.hangUp(ctx); hangUpErr != nil {
		log.G(ctx).WithError(hangUpErr).WithField("containerID", p.containerID).
			Warn("cannot hang up command without a client, it may run on")
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return 0, err
}

// endOfTransmission is what a terminal sends for the end of input (ctrl-D).
const endOfTransmission = 4

// endInput returns the function that ends the command's input. A terminal's input cannot be closed on its own: the
// engine would end the output with it.
func (p *process) endInput(tty bool) func() error {
	if !tty {
		return p.run.CloseWrite
	}
	return func() error {
		_, err := p.run.Write([]byte{endOfTransmission})
		return err
	}
}

// hangUp sends SIGHUP to the command's session and its descendants, on a context of its own.
func (p *process) hangUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	pid, err := p.run.pid(ctx, p.copied)
	if err != nil || pid == 0 {
		return err
	}
	if inSandbox, err := p.service.signalInSandbox(ctx, p.containerID, pid, unix.SIGHUP); inSandbox || err != nil {
		return err
	}
	return p.service.hangUpTree(pid, p.containerID)
}
