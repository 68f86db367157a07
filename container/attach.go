package container

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// Attach connects a client to the streams of a running container (CRI Attach),
// from now on, until the container or ctx ends. Whether there is a terminal is
// the container's own property and not the client's to say.
//
// When the client's input ends, so does that of a container that was created
// with stdin_once and without a terminal; in any other case the attachment
// ends, as with Docker, and the container keeps its input.
//
// It fails with ErrFailedPrecondition when the container does not run.
func (s *Service) Attach(ctx context.Context, id string, streams Streams) error {
	c, err := s.running(id)
	if err != nil {
		return err
	}
	// The mirror may know a container from its labels alone, which do not tell.
	seen, err := s.opts.Engine.InspectContainer(ctx, c.ID)
	if err != nil {
		return err
	}
	if seen.Config == nil {
		return fmt.Errorf("attaching to container %s: the engine tells nothing of it: %w", c.ID, errdefs.ErrInternal)
	}
	streams.TTY = seen.Config.Tty
	stream, err := s.opts.Engine.AttachContainer(ctx, c.ID, docker.AttachOptions{
		Stdin:  streams.Stdin != nil,
		Stdout: streams.Stdout != nil,
		Stderr: streams.Stderr != nil && !streams.TTY,
	})
	if errdefs.IsConflict(err) {
		return fmt.Errorf("container %s does not run any more, or is paused: %w: %w", c.ID, errdefs.ErrFailedPrecondition, err)
	}
	if err != nil {
		return err
	}
	return s.joinStreams(ctx, c.ID, streams, stream)
}

// joinStreams copies between the client and the container until the output or
// ctx ends.
func (s *Service) joinStreams(ctx context.Context, id string, streams Streams, stream docker.Stream) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		streams.copyOutput(stream)
	}()
	go streams.copyInput(stream, stream.CloseWrite)
	go streams.follow(following, func(ctx context.Context, size docker.TerminalSize) error {
		return s.opts.Engine.ResizeContainer(ctx, id, size)
	})
	select {
	case <-copied:
	case <-ctx.Done():
	}
	err := errors.Join(ctx.Err(), stream.Close())
	<-copied
	return err
}
