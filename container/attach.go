package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

const (
	// silentOutput is how long the engine may be silent to a client of a container that has ended. After that the
	// client counts as attached too late.
	silentOutput = 200 * time.Millisecond
	// shortLife is the time after a container's start from which its client has had time to attach. Attach replays only
	// the output of a container that has lived for a shorter time.
	shortLife = 10 * time.Second
	// firstMoments is how soon after a container's start a client must attach to get the output from the start. A
	// client such as kubectl run cannot attach earlier.
	firstMoments = 2 * time.Second
	// endNotice bounds how much later than the end of a container's output the engine shows the container's end.
	endNotice = 2 * time.Second
)

// Attach connects a client to the streams of a running container until the container or ctx ends (CRI Attach). The
// client gets the output from now on. The container decides whether there is a terminal.
//
// When the client's input ends, the input of a container with stdin_once and without a terminal ends, too. In any other
// case the attachment ends, as with Docker, and the container keeps its input.
//
// If the container lived less than ten seconds and the client got no output, Attach sends all output from the engine's
// log. This applies to a client that came within two seconds of the start, or that the engine attached after the
// container's end.
//
// Attach fails with ErrFailedPrecondition if the container does not run.
func (s *Service) Attach(ctx context.Context, id string, streams Streams) error {
	c, err := s.running(id)
	if err != nil {
		return err
	}
	// The cache may have built the container from its labels, which do not say whether there is a terminal. It may
	// learn of the end a moment later.
	inspect, err := s.opts.Engine.InspectContainer(ctx, c.ID)
	if err != nil {
		return err
	}
	if inspect.Config == nil || inspect.State == nil {
		return fmt.Errorf("attaching to container %s: the engine does not report its state: %w", c.ID,
			errdefs.ErrInternal)
	}
	streams.TTY = inspect.Config.Tty
	wanted := docker.AttachOptions{
		Stdin:  streams.Stdin != nil,
		Stdout: streams.Stdout != nil,
		Stderr: streams.Stderr != nil && !streams.TTY,
	}
	if !inspect.State.Running {
		return s.replay(ctx, c.ID, streams, wanted)
	}
	early := time.Since(c.Status.StartedAt) < firstMoments
	stream, err := s.opts.Engine.AttachContainer(ctx, c.ID, wanted)
	if errdefs.IsConflict(err) {
		return fmt.Errorf("container %s does not run any more, or is paused: %w: %w", c.ID,
			errdefs.ErrFailedPrecondition, err)
	}
	if err != nil {
		return err
	}
	output := &meter{Reader: stream}
	inTime, err := s.joinStreams(ctx, c, streams, stream, output)
	if err != nil || output.bytes.Load() > 0 || inTime && !early {
		return err
	}
	if inTime {
		s.noticeEnd(ctx, c)
	}
	err = s.replay(ctx, c.ID, streams, wanted)
	if errdefs.IsFailedPrecondition(err) || errdefs.IsNotFound(err) {
		return nil // the container wrote no output after the attach, or was removed with its log
	}
	return err
}

// noticeEnd waits until the cache shows the end of a container whose output has ended. A container may also close its
// output and run on, so the wait is short.
func (s *Service) noticeEnd(ctx context.Context, c *state.Container) {
	waiting, cancel := context.WithTimeout(ctx, endNotice)
	defer cancel()
	_ = s.opts.Cache.WaitEnded(waiting, c) // the caller looks at the state
}

// joinStreams copies between the client and the container until the output, the container or ctx ends. It reports
// whether the engine ended the output. The engine ends the output only of a client that it attached before the
// container's end.
func (s *Service) joinStreams(
	ctx context.Context, c *state.Container, streams Streams, stream docker.Stream, output *meter,
) (inTime bool, err error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		streams.copyOutput(ctx, output)
	}()
	go streams.copyInput(following, stream, stream.CloseWrite)
	go streams.follow(following, func(ctx context.Context, size docker.TerminalSize) error {
		return s.opts.Engine.ResizeContainer(ctx, c.ID, size)
	})
	lives := s.life(following, c)
	select {
	case <-copied:
	case life := <-lives:
		drainEnded(ctx, output, copied, life)
	case <-ctx.Done():
	}
	inTime = closed(copied)
	err = errors.Join(ctx.Err(), stream.Close())
	<-copied
	stop()
	// life's inspect may run the exit hook, which waits up to two seconds for the container's record.
	for range lives {
	}
	return inTime, err
}

// life sends how long a container has lived when it has ended, unless ctx ends first. If the end is unknown, life sends
// shortLife. joinStreams needs this because the engine may have attached the client after the end: such a client would
// wait for the container's next start. life closes the channel when its goroutine ends.
func (s *Service) life(ctx context.Context, c *state.Container) <-chan time.Duration {
	lived := make(chan time.Duration, 1)
	go func() {
		defer close(lived)
		now, err := s.opts.Cache.RefreshContainer(ctx, c.ID)
		if err != nil {
			now = c // the cache tries again by itself, or has noticed that the container is gone
		}
		if s.opts.Cache.WaitEnded(ctx, now) != nil {
			return
		}
		if ended, err := s.opts.Cache.Snapshot().Container(c.ID); err == nil {
			now = ended
		}
		if now.Status.FinishedAt.IsZero() {
			lived <- shortLife
			return
		}
		lived <- now.Status.FinishedAt.Sub(now.Status.StartedAt)
	}()
	return lived
}

// drainEnded waits for the rest of the output of a container that has ended. The engine then ends the stream. If the
// engine attached too late, nothing ever comes. If the container's output can be replayed, a short silence counts as
// too late.
func drainEnded(ctx context.Context, output *meter, copied <-chan struct{}, life time.Duration) {
	dry := dryOutput
	if life < shortLife && output.bytes.Load() == 0 {
		dry = silentOutput
	}
	_ = output.drain(ctx, copied, dry) // the caller looks at ctx
	if dry == silentOutput && output.bytes.Load() > 0 {
		_ = output.drain(ctx, copied, dryOutput)
	}
}

// replay writes all output of a container with a short life to a client. It fails with ErrFailedPrecondition when the
// container lived longer, or runs.
func (s *Service) replay(ctx context.Context, id string, streams Streams, wanted docker.AttachOptions) error {
	c, err := s.opts.Cache.RefreshContainer(ctx, id)
	if err != nil {
		return err
	}
	status := c.Status
	if status.Running || status.FinishedAt.IsZero() || status.FinishedAt.Sub(status.StartedAt) >= shortLife {
		return fmt.Errorf("container %s does not run any more: %w", id, errdefs.ErrFailedPrecondition)
	}
	if !wanted.Stdout && !wanted.Stderr {
		return nil // the client wants no output
	}
	written, err := s.opts.Engine.ContainerLogs(ctx, id, wanted)
	if err != nil {
		return fmt.Errorf("reading the output of container %s: %w", id, err)
	}
	defer written.Close()
	streams.copyOutput(ctx, written)
	return ctx.Err()
}

// CheckRunning asks the engine, and fails with ErrFailedPrecondition when a container does not run.
func (s *Service) CheckRunning(ctx context.Context, id string) error {
	c, err := s.opts.Cache.RefreshContainer(ctx, id)
	if err != nil {
		return err
	}
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return wrongState(c, "running")
	}
	return nil
}
