package container

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
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
			return fmt.Errorf("container %s exists with id %s, remove it first or count the attempt up: %w",
				c.Meta.Name, c.ID, errdefs.ErrAlreadyExists)
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
	record, err := s.opts.Store.Load(ctx, c.SandboxID)
	if err != nil {
		return false, docker.IgnoreNotFound(err)
	}
	_, finished := record.Containers[c.ID]
	return !finished, nil
}

// removeLeftover removes the container that holds a name in the engine while the cache does not know it: the outcome of
// a create whose answer was lost. A container that criadapter did not make is left alone.
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
	if owner := translate.OtherRootDirectory(name, inspect.Config.Labels, s.opts.RootDirectory); owner != "" {
		return fmt.Errorf(
			"container %s exists with id %s and belongs to the criadapter with --root-directory=%s, remove it "+
				"there or count the attempt up: %w",
			name, inspect.ID, owner, errdefs.ErrAlreadyExists)
	}
	if inspect.State != nil && inspect.State.Running {
		return fmt.Errorf("container %s runs already with id %s: %w", name, inspect.ID, errdefs.ErrAlreadyExists)
	}
	log.G(ctx).WithFields(log.Fields{"name": name, "containerID": inspect.ID}).
		Info("removing container of an unfinished create")
	return docker.IgnoreNotFound(s.opts.Engine.RemoveContainer(ctx, inspect.ID))
}
