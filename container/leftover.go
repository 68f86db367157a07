package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// clearName makes sure that no container in the cache holds the name. A created container without a checkpoint is the
// leftover of an interrupted Create. No client has its id, so it is removed. Any other container with the name answers
// an earlier request and stays.
func (s *Service) clearName(ctx context.Context, d *draft) error {
	for _, c := range s.opts.Cache.Snapshot().ContainersOf(d.pod.ID) {
		if c.Meta.Name != d.spec.Name {
			continue
		}
		leftover, err := s.isLeftover(ctx, c)
		if err != nil {
			return err
		}
		if !leftover {
			return exists(c.Meta.Name, c.ID)
		}
		if err := s.discard(ctx, c.ID); err != nil {
			return fmt.Errorf("removing the leftover of an unfinished create: %w", err)
		}
	}
	return nil
}

// isLeftover reports whether the container is in the state CREATED and unclaimed.
func (s *Service) isLeftover(ctx context.Context, c *state.Container) (bool, error) {
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return false, nil
	}
	return s.unclaimed(ctx, c.SandboxID, c.ID)
}

// unclaimed reports whether no client ever got the container's id. A client gets the id only after the checkpoint of
// the container's pod names the container. A pod that was removed has no checkpoint, and is not in the cache: all
// containers that clients knew were removed before it. A pod in the cache without a checkpoint is another shim's, or
// has lost its checkpoint. Its containers count as claimed.
func (s *Service) unclaimed(ctx context.Context, sandboxID, id string) (bool, error) {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if errdefs.IsNotFound(err) {
		_, err := s.opts.Cache.Snapshot().Pod(sandboxID)
		return errdefs.IsNotFound(err), nil
	}
	if err != nil {
		return false, err
	}
	_, named := record.Containers[id]
	return !named, nil
}

// removeLeftover looks in the engine for a container with the name, since no container of the pod in the cache has it.
// It removes the container if a create made it and the engine's answer was lost. The sandbox of that create may be
// removed by now. Any other container stays, such as one that a client knows in an earlier sandbox of the pod, and the
// error says what to do.
func (s *Service) removeLeftover(ctx context.Context, name string) error {
	inspect, err := s.opts.Engine.InspectContainer(ctx, name)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	if inspect.Config == nil || translate.Identify(name, inspect.Config.Labels) != translate.KindContainer {
		return fmt.Errorf(
			"the container name %s is taken by a container that belongs to no pod, rename or remove it: %w", name,
			errdefs.ErrAlreadyExists)
	}
	labels := inspect.Config.Labels
	if err := translate.CheckOwner("container", name, inspect.ID, labels, s.opts.RootDirectory); err != nil {
		return err
	}
	unclaimed, err := s.unclaimed(ctx, labels[translate.LabelSandboxID], inspect.ID)
	if err != nil {
		return err
	}
	if !unclaimed || !neverRan(inspect.State) {
		return exists(name, inspect.ID)
	}
	log.G(ctx).WithFields(log.Fields{"name": name, "containerID": inspect.ID}).
		Info("removing container of an unfinished create")
	return s.discard(ctx, inspect.ID)
}

// discard removes a container from the engine and from the cache. The engine's event may be lost.
func (s *Service) discard(ctx context.Context, id string) error {
	if err := docker.IgnoreNotFound(s.opts.Engine.RemoveContainer(ctx, id)); err != nil {
		return err
	}
	s.opts.Cache.RemoveContainer(id)
	return nil
}

// neverRan reports whether a container is created, or dead after an incomplete removal.
func neverRan(s *container.State) bool {
	return s == nil || s.Status == container.StateCreated || s.Status == container.StateDead
}

func exists(name, id string) error {
	return fmt.Errorf("container %s exists with id %s, remove it first or use a higher attempt: %w", name, id,
		errdefs.ErrAlreadyExists)
}

// unfinishedIn returns the names of containers in a pod that creates may have left in the engine.
func (s *Service) unfinishedIn(sandboxID string) (names []string) {
	s.unfinished.Range(func(name, id any) bool {
		if id == sandboxID {
			names = append(names, name.(string))
		}
		return true
	})
	return names
}

// RemoveUnfinished removes containers that failed creates left in a pod, even if the cache lacks them. It waits for
// creates under way. Call it for a pod that is being removed: no create in it succeeds any more.
func (s *Service) RemoveUnfinished(ctx context.Context, sandboxID string) error {
	for _, name := range s.unfinishedIn(sandboxID) {
		if err := s.removeUnfinished(ctx, sandboxID, name); err != nil {
			return fmt.Errorf("removing the container of an unfinished create: %w", err)
		}
	}
	return nil
}

func (s *Service) removeUnfinished(ctx context.Context, sandboxID, name string) error {
	unlock, err := s.locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	inspect, err := s.opts.Engine.InspectContainer(ctx, name)
	if docker.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && inspect.Config != nil && inspect.Config.Labels[translate.LabelSandboxID] == sandboxID {
		if err := s.discard(ctx, inspect.ID); err != nil {
			return err
		}
	}
	s.unfinished.CompareAndDelete(name, sandboxID)
	return nil
}
