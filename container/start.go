package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// cannotRunExitCode is the exit code of a container that never ran, if the engine reports none. containerd's CRI plugin
// uses the same code (errorStartExitCode).
const cannotRunExitCode = 128

// maxRefreshPause bounds the pause between two inspects of a started container. It allows six inspects.
const maxRefreshPause = 400 * time.Millisecond

// Start starts a created container (CRI StartContainer). It fails with ErrFailedPrecondition in any other state and
// when the pod is not ready. A container that cannot run (no such command) becomes EXITED with the engine's exit code
// and error text. Start returns the same text. If the kernel refuses a limit that the engine has no field for, the
// container is killed. When ctx ends or the engine goes away during the start, the container may start all the same.
// The cache then shows it.
func (s *Service) Start(ctx context.Context, id string) error {
	c, unlock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return wrongState(c, "created")
	}
	pod, err := s.readyPod(c.SandboxID)
	if err != nil {
		return err
	}
	if err := s.opts.Plugins.StartContainer(ctx, pod, c); err != nil {
		return err
	}
	// The log is followed first: if that fails, no running container is left behind, and no output is missed.
	if err := s.follow(ctx, c, nil); err != nil {
		return err
	}
	s.watchOOM(c)
	startErr := s.begin(ctx, c.SandboxID, c.ID)
	if startErr == nil || ctx.Err() != nil || errdefs.IsUnavailable(startErr) {
		settleErr := s.settle(ctx, c)
		if settleErr == nil {
			s.tellStarted(ctx, pod, c.ID, startErr)
		}
		return errors.Join(startErr, settleErr)
	}
	return errors.Join(startErr, s.cannotRun(ctx, c, startErr))
}

// tellStarted tells plugins of a container that has started, and perhaps already ended. If the start failed without an
// answer of the engine, the cache shows whether the container has started.
func (s *Service) tellStarted(ctx context.Context, pod *state.Pod, id string, startErr error) {
	c, err := s.find(id)
	if err == nil && (startErr == nil || c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED) {
		s.opts.Plugins.ContainerStarted(ctx, pod, c)
	}
}

// settle refreshes the cache after a start, and applies the limits that the engine has no field for. If the limits
// cannot be applied, it kills the container. If the refresh fails, the engine's events update the cache later, and
// Watch applies the limits.
func (s *Service) settle(ctx context.Context, c *state.Container) error {
	ctx, cancel := settling(ctx)
	defer cancel()
	now, err := s.refreshStarted(ctx, c.ID)
	if err != nil {
		log.G(ctx).WithError(err).Warn("cannot inspect container after its start")
		return nil
	}
	if now.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED {
		s.drainExited(ctx, now)
		return nil
	}
	s.runs.begin(now)
	if _, err := s.limit(ctx, now, "config.linux.resources", now.Status.Resources.GetLinux()); err != nil {
		return errors.Join(err, docker.IgnoreNotFound(s.opts.Engine.StopContainer(ctx, now.ID, 0)), s.ended(ctx, now))
	}
	return nil
}

// refreshStarted inspects a started container, with up to five retries after errors. Without an answer the cache still
// shows the state before the start, and some limits are not applied.
func (s *Service) refreshStarted(ctx context.Context, id string) (now *state.Container, err error) {
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		if now, err = s.opts.Cache.RefreshContainer(ctx, id); err == nil || errdefs.IsNotFound(err) ||
			pause > maxRefreshPause {
			return now, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// cannotRun publishes EXITED for a container that the engine could not start and still reports as created. The record
// keeps the end: after a restart of criadapter the kubelet would start such a container again, whatever its restart
// policy is.
func (s *Service) cannotRun(ctx context.Context, c *state.Container, cause error) error {
	ctx, cancel := settling(ctx)
	defer cancel()
	drainErr := s.drain(ctx, c.ID, exitDrainTimeout)
	now, err := s.opts.Cache.RefreshContainer(ctx, c.ID)
	if errdefs.IsNotFound(err) {
		return drainErr
	}
	if err != nil {
		return errors.Join(drainErr, fmt.Errorf("looking at it after the failed start: %w", err))
	}
	if now.Status.Running || now.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED {
		return drainErr
	}
	at := time.Now() // one time for start and end tells the cache's subscribers that it never ran
	s.opts.Cache.UpdateContainer(c.ID, func(status *state.ContainerStatus) {
		status.StartedAt, status.FinishedAt = at, at
		status.ExitCode = cmp.Or(status.ExitCode, cannotRunExitCode)
		status.Error = cmp.Or(status.Error, cause.Error())
	})
	return errors.Join(drainErr, s.saveEnd(ctx, c.ID))
}
