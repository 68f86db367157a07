package container

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// pause pauses a container for a checkpoint, and unpause resumes it. The pod's record names the container before it is
// paused. So Watch resumes it at the next start of criadapter if a crash comes in between, and tries again if unpause
// fails.
//
// A container that a user has paused is refused, because it must stay paused. If pause fails, the container does not
// stay paused, even if only the engine's answer was lost: pause resumes it, or Watch does later. The caller holds the
// container's lock.
func (s *Service) pause(ctx context.Context, sandboxID, id string) error {
	if err := s.resumeLeft(ctx, sandboxID, id); err != nil {
		return err
	}
	c, err := s.opts.Cache.RefreshContainer(ctx, id)
	if err != nil {
		return err
	}
	if c.Status.Paused {
		return fmt.Errorf("container %s is paused, it must be running: %w", id, errdefs.ErrFailedPrecondition)
	}
	if err := s.markPaused(ctx, sandboxID, id, true); err != nil {
		return err
	}
	err = s.opts.Engine.PauseContainer(ctx, id)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || errdefs.IsUnavailable(err): // the engine may have paused it
		_, undoErr := s.resumeOrLater(ctx, sandboxID, id)
		return errors.Join(err, undoErr)
	default: // for example, a user has paused it first
		return errors.Join(err, s.markPaused(ctx, sandboxID, id, false))
	}
}

// unpause resumes a container, even if the caller is gone. It fails if the container was not paused any more.
func (s *Service) unpause(ctx context.Context, sandboxID, id string) error {
	return errors.Join(s.resumeOrLater(ctx, sandboxID, id))
}

// resumeOrLater is resume, even if the caller is gone. If the container could not be resumed, Watch tries again. If the
// queue of Watch is full, the next checkpoint of the container or the next start of criadapter resumes it.
func (s *Service) resumeOrLater(ctx context.Context, sandboxID, id string) (notPaused, err error) {
	settle, cancel := settling(ctx)
	defer cancel()
	if notPaused, err = s.resume(settle, sandboxID, id); err != nil {
		s.leaveToWatch(func(ctx context.Context) { s.retryResume(ctx, sandboxID, id) })
	}
	return notPaused, err
}

// resume unpauses a container that pause has paused, or may have paused. notPaused is the engine's error if the
// container was not paused. After err the container may still be paused, and the record still names it. The caller
// holds the container's lock.
func (s *Service) resume(ctx context.Context, sandboxID, id string) (notPaused, err error) {
	notPaused = docker.IgnoreNotFound(s.opts.Engine.UnpauseContainer(ctx, id))
	if notPaused != nil { // the error does not say whether the container was paused
		c, err := s.opts.Cache.RefreshContainer(ctx, id)
		if err == nil && c.Status.Paused || docker.IgnoreNotFound(err) != nil {
			return nil, notPaused
		}
	}
	return notPaused, s.markPaused(ctx, sandboxID, id, false)
}

// resumeLeft resumes a container that an earlier checkpoint has left paused: criadapter ended, or the engine was away.
// The caller holds the container's lock.
func (s *Service) resumeLeft(ctx context.Context, sandboxID, id string) error {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil || !slices.Contains(record.Paused, id) {
		return docker.IgnoreNotFound(err)
	}
	_, err = s.resume(ctx, sandboxID, id)
	return err
}

// leftPaused returns the ids of a pod's containers that checkpoints have paused, or are about to pause.
func (s *Service) leftPaused(ctx context.Context, sandboxID string) []string {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil {
		return nil // without a record no container was paused, and the store reports an unreadable one
	}
	return record.Paused
}

// retryResume resumes a container that a checkpoint has left paused, with retries while ctx lasts. The engine refuses
// this while it still writes the checkpoint.
func (s *Service) retryResume(ctx context.Context, sandboxID, id string) {
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{"podSandboxID": sandboxID, "containerID": id}))
	retry(ctx, "cannot resume container that a checkpoint has left paused", func() error {
		unlock, err := s.locks.Lock(ctx, id) // a later checkpoint may hold the lock
		if err != nil {
			return err
		}
		defer unlock()
		return s.resumeLeft(ctx, sandboxID, id)
	})
}

// markPaused adds a container to Record.Paused, or removes it there.
func (s *Service) markPaused(ctx context.Context, sandboxID, id string, paused bool) error {
	return s.mark(ctx, sandboxID, func(r *checkpoint.Record) *[]string { return &r.Paused }, id, paused)
}
