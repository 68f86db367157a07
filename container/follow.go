package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/state"
)

// maxRecoveries bounds how many containers Recover resumes concurrently.
const maxRecoveries = 8

// follow begins to write a container's CRI log, from resume on, or from the beginning when it is nil. It succeeds when
// the log is already being written. With LinkLogs it links the log instead.
func (s *Service) follow(ctx context.Context, c *state.Container, resume *checkpoint.LogPosition) error {
	if c.Meta.LogPath == "" {
		return nil
	}
	path, err := s.engineLog(ctx, c)
	if err != nil {
		return err
	}
	// A log that was begun in the CRI format is not replaced by a link.
	resumed := resume != nil && *resume != (checkpoint.LogPosition{})
	if s.opts.LinkLogs && c.Meta.LogDriver == logs.DriverJSONFile && !resumed {
		return logs.Link(path, s.logDirectory(c.SandboxID), c.Meta.LogPath)
	}
	source := logs.Source{
		ContainerID: c.ID,
		Driver:      c.Meta.LogDriver,
		Path:        path,
		LogPath:     c.Meta.LogPath,
		Root:        s.logDirectory(c.SandboxID),
		Resume:      resume,
		Started:     c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED,
		Ended:       c.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED,
		Save: func(ctx context.Context, at checkpoint.LogPosition) error {
			return s.savePosition(ctx, c.SandboxID, c.ID, at)
		},
	}
	err = s.opts.Logs.Start(ctx, source)
	if errdefs.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// logDirectory is a pod's log directory, empty when it is unknown.
func (s *Service) logDirectory(sandboxID string) string {
	pod, err := s.opts.Cache.Snapshot().Pod(sandboxID)
	if err != nil {
		return ""
	}
	return pod.Meta.Config.GetLogDirectory()
}

// engineLog returns the path of the engine's log file of a container. For the log driver json-file, the engine reports
// the path only after the container's first start. For the log driver local, it never reports the path.
func (s *Service) engineLog(ctx context.Context, c *state.Container) (string, error) {
	if c.Meta.EngineLogPath != "" {
		return c.Meta.EngineLogPath, nil
	}
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(features.Root, "containers", c.ID)
	if c.Meta.LogDriver == logs.DriverJSONFile {
		return filepath.Join(dir, c.ID+"-json.log"), nil
	}
	return filepath.Join(dir, "local-logs", "container.log"), nil
}

// isLinked reports whether a container's CRI log is a link to the engine's file. criadapter makes such a link with
// LinkLogs, and other shims make one as well.
func (s *Service) isLinked(ctx context.Context, c *state.Container) (bool, error) {
	if c.Meta.LogDriver != logs.DriverJSONFile || c.Meta.LogPath == "" {
		return false, nil
	}
	path, err := s.engineLog(ctx, c)
	if err != nil {
		return false, err
	}
	return logs.IsLinked(path, s.logDirectory(c.SandboxID), c.Meta.LogPath)
}

// changeLink calls change for a log that is a link to the engine's file. Only one call at a time works on a log. If
// two calls copied it at once, one copy would be lost. RestoreLink during a ReopenLog would undo unfinished work.
func (s *Service) changeLink(
	ctx context.Context, c *state.Container, change func(enginePath, root, logPath string) error,
) error {
	unlock, err := s.locks.Lock(ctx, c.ID)
	if err != nil {
		return err
	}
	defer unlock()
	path, err := s.engineLog(ctx, c)
	if err != nil {
		return err
	}
	return change(path, s.logDirectory(c.SandboxID), c.Meta.LogPath)
}

// drain writes the rest of a container's log, for at most limit.
func (s *Service) drain(ctx context.Context, id string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.opts.Logs.Drain(ctx, id)
}

// FinishExit finds out whether a container that has ended was out of memory, and calls drainExited. It is the cache's
// exit hook. Only FinishExit checks for new kills: a second check for one exit could find the kill of another
// container.
func (s *Service) FinishExit(ctx context.Context, c *state.Container) {
	s.noteOOM(c)
	s.drainExited(ctx, c)
}

// drainExited writes the rest of the log of a container that has ended, and saves its end, within 2 seconds. If the
// log's disk takes longer, the rest is written later. It comes before the exit is published, because the kubelet reads
// the log's end when it sees the exit.
func (s *Service) drainExited(ctx context.Context, c *state.Container) {
	late := time.After(exitDrainTimeout)
	limited, cancel := context.WithTimeout(ctx, exitDrainTimeout)
	defer cancel()
	if end := state.EndOf(c); end != nil {
		s.ends.Store(c.ID, end)
		defer s.ends.Delete(c.ID)
	}
	if err := s.opts.Logs.Drain(limited, c.ID); err != nil {
		log.G(ctx).WithError(err).WithFields(c.LogFields()).
			Warn("container log of exited container is incomplete, it is completed later")
	}
	addFacts := s.facts(c.ID)
	if addFacts == nil {
		return
	}
	saved := make(chan struct{})
	go func() { // on a slow disk it outlives this call
		defer close(saved)
		if err := s.changeRecord(ctx, c.SandboxID, c.ID, addFacts); err != nil {
			log.G(ctx).WithError(err).WithFields(c.LogFields()).
				Warn("cannot save the end of container, its user and an out-of-memory kill are unknown after a " +
					"restart of criadapter")
		}
	}()
	select {
	case <-saved: // the end of ctx does not cut this wait short
	case <-late:
	}
}

// Recover resumes the work of criadapter's last start. The logs of running containers are followed from where they
// were, and logs of ended containers are completed. Limits are written once more. Call it after the cache's first
// relist. Clients wait for Recover, so it leaves all work that can wait to Watch. A container's failure is logged, and
// Watch tries its log again. Recover returns only the error of ctx.
func (s *Service) Recover(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "container"))
	var group errgroup.Group
	group.SetLimit(maxRecoveries)
	for _, c := range s.opts.Cache.Snapshot().Containers() {
		group.Go(func() error {
			// criadapter may have crashed between the container's start and the write of its limits.
			if now, _ := s.beginRun(ctx, c.ID); now != nil && !s.resumeLog(ctx, now) {
				s.unresumed.add(c.ID)
			}
			return nil
		})
	}
	_ = group.Wait() // the goroutines return no errors
	// This needs a new snapshot: a container may have ended before the exit hook found a follower of its log.
	s.awaitEnded(ctx, s.opts.Cache.Snapshot().Containers())
	return ctx.Err()
}

// awaitEnded waits at most 2 seconds until the logs of all ended containers are complete. Later they are completed in
// the background.
func (s *Service) awaitEnded(ctx context.Context, containers []*state.Container) {
	ctx, cancel := context.WithTimeout(ctx, exitDrainTimeout)
	defer cancel()
	for _, c := range containers {
		if c.Status.State() != runtimeapi.ContainerState_CONTAINER_EXITED {
			continue
		}
		if err := s.opts.Logs.Drain(ctx, c.ID); err != nil {
			log.G(ctx).WithError(err).WithFields(c.LogFields()).
				Warn("container log of exited container is incomplete, it is completed later")
		}
	}
}

// recoverLog resumes one container's log. Where its record is lost, no line is written twice, but some may be missing:
// see logs.Source.
func (s *Service) recoverLog(ctx context.Context, c *state.Container) error {
	info, err := os.Lstat(c.Meta.LogPath)
	switch c.Status.State() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the kubelet has removed the log, and removes the container next
		}
	default:
		return nil
	}
	if linked, err := s.isLinked(ctx, c); err != nil || linked {
		return errors.Join(err, s.changeLink(ctx, c, logs.RestoreLink))
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil // of another shim
	}
	kept, err := s.loadRecord(ctx, c.SandboxID, c.ID)
	if err != nil {
		return err
	}
	var resume *checkpoint.LogPosition
	if kept != nil && kept.LogPosition != (checkpoint.LogPosition{}) { // zero if none was saved
		resume = &kept.LogPosition
	}
	ended := c.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED
	if ended && resume != nil {
		path, err := s.engineLog(ctx, c)
		if err != nil || logs.IsComplete(path, *resume) {
			return err
		}
	}
	err = s.follow(ctx, c, resume)
	if ended && errors.Is(err, fs.ErrNotExist) {
		return nil // another client has removed the container, and the engine's log is gone
	}
	if err != nil {
		return err
	}
	// The container may have ended before the exit hook could find the follower of its log.
	now, err := s.opts.Cache.Snapshot().Container(c.ID)
	if err != nil || now.Status.State() == runtimeapi.ContainerState_CONTAINER_EXITED {
		s.opts.Logs.Finish(c.ID)
	}
	return docker.IgnoreNotFound(err)
}
