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
		if err := docker.IgnoreNotFound(s.opts.Engine.RemoveContainer(ctx, c.ID)); err != nil {
			return fmt.Errorf("removing the leftover of an unfinished create: %w", err)
		}
		s.opts.Cache.RemoveContainer(c.ID)
	}
	return nil
}

// isLeftover reports whether no client ever got the container's id. The pod of such a container has a checkpoint, so
// criadapter made it, but the checkpoint does not name the container.
func (s *Service) isLeftover(ctx context.Context, c *state.Container) (bool, error) {
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return false, nil
	}
	return s.unclaimed(ctx, c.SandboxID, c.ID)
}

// unclaimed reports whether the pod has a checkpoint, and the checkpoint does not name the container. It is written
// before a client gets the container's id.
func (s *Service) unclaimed(ctx context.Context, sandboxID, id string) (bool, error) {
	record, err := s.opts.Store.Load(ctx, sandboxID)
	if err != nil {
		return false, docker.IgnoreNotFound(err)
	}
	_, named := record.Containers[id]
	return !named, nil
}

// removeLeftover removes the container that holds a name in the engine while the pod's part of the cache does not know
// it: the outcome of a create whose answer was lost. Any other container is left alone, such as one of an earlier
// sandbox of the pod. The error says what to do then.
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
	return docker.IgnoreNotFound(s.opts.Engine.RemoveContainer(ctx, inspect.ID))
}

// neverRan reports whether a container is as its create left it, or half removed.
func neverRan(s *container.State) bool {
	return s == nil || s.Status == container.StateCreated || s.Status == container.StateDead
}

func exists(name, id string) error {
	return fmt.Errorf("container %s exists with id %s, remove it first or use a higher attempt: %w", name, id,
		errdefs.ErrAlreadyExists)
}
