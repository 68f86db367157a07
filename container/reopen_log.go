package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/logs"
)

// ReopenLog lets a container's output go on in a new file at its log path, after the kubelet has renamed the old file.
// It fails with ErrNotFound for an unknown container. For a container that does not run, or has no log, it fails with
// ErrFailedPrecondition and makes no file. CRI leaves this choice (ReopenContainerLog): "If the container is not
// running, container runtime can choose to either create a new log file and return nil, or return an error. Once it
// returns error, new container log file MUST NOT be created."
func (s *Service) ReopenLog(ctx context.Context, id string) error {
	c, err := s.running(id)
	if err != nil {
		return err
	}
	if c.Meta.LogPath == "" {
		return fmt.Errorf("container %s was created without config.log_path: %w", c.ID, errdefs.ErrFailedPrecondition)
	}
	linked, err := s.isLinked(ctx, c)
	if err != nil {
		return err
	}
	if linked {
		features, err := s.opts.Engine.Features(ctx)
		if err != nil {
			return err
		}
		return s.changeLink(ctx, c, func(enginePath, root, logPath string) error {
			return logs.ReopenLink(ctx, enginePath, root, logPath, features.Process)
		})
	}
	err = s.opts.Logs.Reopen(ctx, c.ID)
	if !errdefs.IsFailedPrecondition(err) {
		return err
	}
	// Recover may not have resumed this log yet. After an error, the kubelet would rename the old file back, over the
	// new one that Recover makes a moment later.
	if err := s.recoverLog(ctx, c); err != nil {
		return err
	}
	if linked, err = s.isLinked(ctx, c); err != nil || linked {
		return err
	}
	return s.opts.Logs.Reopen(ctx, c.ID)
}
