package container

import (
	"context"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Remove kills a container if it runs, and removes it with its anonymous volumes and records (CRI RemoveContainer:
// "This call is idempotent, and must not return an error if the container has already been removed"). Unknown ids
// succeed. The CRI log stays: the kubelet removes it.
func (s *Service) Remove(ctx context.Context, id string) error {
	c, unlock, err := s.lock(ctx, id)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	defer unlock()
	if c.Status.Running || c.Status.Unknown {
		if err := docker.IgnoreNotFound(s.opts.Engine.StopContainer(ctx, c.ID, 0)); err != nil {
			return err
		}
	}
	return s.remove(ctx, c)
}

// remove removes an ended container. The container stays visible until the last step, so that the call can be repeated
// after an error.
func (s *Service) remove(ctx context.Context, c *state.Container) error {
	// Step 1: the log, because the engine deletes its file with the container. A full disk must not prevent the
	// removal.
	if err := s.drain(ctx, c.ID, removeDrainTimeout); err != nil {
		if ctx.Err() != nil {
			return err
		}
		log.G(ctx).WithError(err).WithFields(c.LogFields()).Warn("removing container with incomplete container log")
	}
	// Step 2: the container. Plugins hear of the removal first. If a crash comes before step 3, the next start lists a
	// container with an end in its record, so that the call can be repeated. Watch drops other records.
	defer s.opts.Plugins.Block()()
	s.opts.Plugins.RemoveContainer(ctx, s.opts.Cache.Snapshot().PodOf(c), s.latest(c))
	if err := docker.IgnoreNotFound(s.opts.Engine.RemoveContainer(ctx, c.ID)); err != nil {
		return err
	}
	// Step 3: the record. If a full disk prevents this, or the pod is being removed, the removal of the pod drops the
	// record. If criadapter starts before the record is dropped, it may list the container once more, as ended.
	if err := s.dropRecord(ctx, c.SandboxID, c.ID); err != nil {
		log.G(ctx).WithError(err).WithFields(c.LogFields()).
			Warn("removed container keeps its record: a restart may list it as ended until it is removed again")
	}
	s.opts.Cache.RemoveContainer(c.ID)
	s.runs.forget(c.ID)
	s.tidyImageVolumes(c.Meta.Config)
	return nil
}
