package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/state"
)

// maxRecoveries bounds how many containers Recover looks after at once.
const maxRecoveries = 8

// follow begins to write a container's CRI log, from resume on, or from the
// beginning when it is nil. It succeeds when the log is already being written.
// With LinkLogs it links the log instead.
func (s *Service) follow(ctx context.Context, c *state.Container, resume *checkpoint.LogPosition) error {
	if c.Meta.LogPath == "" {
		return nil
	}
	path, err := s.engineLog(ctx, c)
	if err != nil {
		return err
	}
	// A log that was begun in the CRI format goes on in it.
	begun := resume != nil && *resume != (checkpoint.LogPosition{})
	if s.opts.LinkLogs && c.Meta.LogDriver == logs.DriverJSONFile && !begun {
		return logs.Link(path, c.Meta.LogPath)
	}
	source := logs.Source{
		ContainerID: c.ID,
		Driver:      c.Meta.LogDriver,
		Path:        path,
		LogPath:     c.Meta.LogPath,
		Resume:      resume,
		Begun:       c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED,
		Ended:       c.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED,
		Save: func(at checkpoint.LogPosition) error {
			return s.savePosition(c.SandboxID, c.ID, at)
		},
	}
	err = s.opts.Logs.Start(ctx, source)
	if errdefs.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// engineLog returns the path of the engine's log file of a container. The
// engine tells that of json-file only once the container was started, and that
// of local never.
func (s *Service) engineLog(ctx context.Context, c *state.Container) (string, error) {
	if c.Meta.EngineLogPath != "" {
		return c.Meta.EngineLogPath, nil
	}
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(features.Root, "containers", c.ID)
	if c.Meta.LogDriver == logs.DriverJSONFile {
		return filepath.Join(folder, c.ID+"-json.log"), nil
	}
	return filepath.Join(folder, "local-logs", "container.log"), nil
}

// isLinked reports whether a container's CRI log is a link to the engine's file:
// made in that mode, or by another shim.
func (s *Service) isLinked(ctx context.Context, c *state.Container) (bool, error) {
	if c.Meta.LogDriver != logs.DriverJSONFile {
		return false, nil
	}
	path, err := s.engineLog(ctx, c)
	if err != nil {
		return false, err
	}
	return logs.IsLinked(path, c.Meta.LogPath)
}

// drain writes the rest of a container's log, for at most limit.
func (s *Service) drain(ctx context.Context, id string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.opts.Logs.Drain(ctx, id)
}

// DrainExited writes the rest of the log of a container that has ended, for at
// most 2 seconds, and what will not be known any more. It is the mirror's exit
// hook: the kubelet reads the log's end when it sees the exit.
func (s *Service) DrainExited(ctx context.Context, c *state.Container) {
	if err := s.drain(ctx, c.ID, exitDrainTimeout); err != nil {
		logrus.WithError(err).WithField("container", c.ID).Warn("the log of an exited container is not complete")
	}
	if err := s.saveUser(c.SandboxID, c.ID); err != nil {
		logrus.WithError(err).WithField("container", c.ID).Warn("who an exited container ran as is not known after a restart of criadapter")
	}
}

// Recover takes up, after a start of criadapter, what the last one left: the
// logs of running containers are followed from where they were, those of
// containers that ended meanwhile are completed, limits are written once more,
// and records of containers that are gone are dropped. Call it after the mirror's first relist. What fails for
// one container is logged and does not keep the others; the error is that of
// ctx.
func (s *Service) Recover(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(maxRecoveries)
	snapshot := s.opts.Mirror.Snapshot()
	for _, c := range snapshot.Containers() {
		group.Go(func() error {
			if err := s.recoverLog(ctx, c); err != nil {
				logrus.WithError(err).WithField("container", c.ID).Warn("cannot take up a container's log")
			}
			// A crash may have come between its start and its limits.
			if _, err := s.limit(c, "config.linux.resources", c.Status.Resources.GetLinux()); err != nil {
				logrus.WithError(err).WithField("container", c.ID).Warn("not all limits of a container are in force")
			}
			return nil
		})
	}
	for _, pod := range snapshot.Pods() {
		group.Go(func() error {
			if err := s.dropGone(ctx, pod.ID); err != nil {
				logrus.WithError(err).WithField("sandbox", pod.ID).Warn("cannot tidy a pod's checkpoint")
			}
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
	return ctx.Err()
}

// recoverLog takes up one container's log. Where its record is lost, what was
// written is never written again, rather is something missing: see logs.Source.
func (s *Service) recoverLog(ctx context.Context, c *state.Container) error {
	info, err := os.Lstat(c.Meta.LogPath)
	switch c.Status.State() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the kubelet has removed it, the container is next
		}
	default:
		return nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil // the log is the engine's own file
	}
	if linked, err := s.isLinked(ctx, c); err != nil || linked {
		return err
	}
	kept, err := s.loadRecord(c.SandboxID, c.ID)
	if err != nil {
		return err
	}
	var resume *checkpoint.LogPosition
	if kept != nil {
		resume = &kept.LogPosition
	}
	if err := s.follow(ctx, c, resume); err != nil {
		return err
	}
	// The container may have ended before the follower was there for the exit
	// hook to find.
	now, err := s.opts.Mirror.Snapshot().Container(c.ID)
	if err != nil || now.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED {
		return errors.Join(ignoreNotFound(err), s.drain(ctx, c.ID, removeDrainTimeout))
	}
	return nil
}

// dropGone drops the records of containers that are gone. A container that is
// being created is not in the mirror yet, so the engine has the last word.
func (s *Service) dropGone(ctx context.Context, sandboxID string) error {
	record, err := s.opts.Store.Load(sandboxID)
	if err != nil {
		return ignoreNotFound(err)
	}
	snapshot := s.opts.Mirror.Snapshot()
	for id := range record.Containers {
		if _, err := snapshot.Container(id); !errdefs.IsNotFound(err) {
			continue
		}
		if _, err := s.opts.Engine.InspectContainer(ctx, id); !errdefs.IsNotFound(err) {
			continue
		}
		if err := s.dropRecord(sandboxID, id); err != nil {
			return fmt.Errorf("container %s: %w", id, err)
		}
	}
	return nil
}
