package nri

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/state"
)

// parallelDescriptions is how many containers the engine describes at the same time.
const parallelDescriptions = 8

// updateTimeout bounds the updates of one answer of a plugin.
const updateTimeout = 10 * time.Second

// synchronize gives plugins the node's pods and containers, and applies their updates.
func (s *Service) synchronize(ctx context.Context, send adaptation.SyncCB) error {
	snapshot := s.opts.Cache.Snapshot()
	var pods []*api.PodSandbox
	for _, pod := range snapshot.Pods() {
		pods = append(pods, describePod(pod))
	}
	updates, err := send(ctx, pods, s.describeAll(ctx, snapshot.Containers()))
	if err != nil {
		return err
	}
	if _, err := s.update(ctx, updates); err != nil {
		log.G(ctx).WithError(err).Warn("updates that an NRI plugin requested at its start failed")
	}
	return nil
}

// describeAll describes containers side by side, because no pod can be made meanwhile. It does not ask the engine about
// ended containers, because a node can have thousands of them.
func (s *Service) describeAll(ctx context.Context, containers []*state.Container) []*api.Container {
	described := make([]*api.Container, len(containers))
	var group errgroup.Group
	group.SetLimit(parallelDescriptions)
	for i, c := range containers {
		if c.Status.State() == stateExited {
			described[i] = describeState(c)
			continue
		}
		group.Go(func() error {
			described[i] = s.describeAnyhow(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // no description fails
	return described
}

// update applies the updates that a plugin asks for at any time. It returns the failed updates whose failure the plugin
// does not ignore.
func (s *Service) update(ctx context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return each(ctx, updates, s.limit)
}

// apply applies the updates of an answer. It leaves out containers that have ended or are gone, because the plugin may
// not have heard of their end yet. The answer usually belongs to a request about another container, which must not fail
// because of these containers.
func (s *Service) apply(ctx context.Context, updates []*api.ContainerUpdate) error {
	_, err := each(ctx, updates, func(ctx context.Context, update *api.ContainerUpdate) error {
		if s.isOver(ctx, update.GetContainerId()) { // the container's removal may hold its lock
			return nil
		}
		if err := s.limit(ctx, update); err != nil && !s.isOver(ctx, update.GetContainerId()) {
			return err
		}
		return nil
	})
	return err
}

// isOver reports whether a container has ended or is gone. A container that is just being made is in the engine, and
// not yet in the cache.
func (s *Service) isOver(ctx context.Context, id string) bool {
	if c, err := s.opts.Cache.Snapshot().Container(id); err == nil {
		return c.Status.State() == stateExited
	}
	_, err := s.opts.Engine.InspectContainer(ctx, id)
	return errdefs.IsNotFound(err)
}

// each applies each update by a call of applyOne. It returns the failed updates whose failure the plugin does not
// ignore.
func each(
	ctx context.Context, updates []*api.ContainerUpdate, applyOne func(context.Context, *api.ContainerUpdate) error,
) ([]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout) // a container may be locked by a request that waits for us
	defer cancel()
	var failed []*api.ContainerUpdate
	var errs []error
	for _, update := range updates {
		err := applyOne(ctx, update)
		if err == nil {
			continue
		}
		if !update.GetIgnoreFailure() {
			failed, errs = append(failed, update), append(errs, err)
			continue
		}
		log.G(ctx).WithError(err).WithField("containerID", update.GetContainerId()).
			Debug("an update that an NRI plugin requested failed; the plugin ignores failures")
	}
	return failed, errors.Join(errs...)
}

func (s *Service) limit(ctx context.Context, update *api.ContainerUpdate) error {
	id := update.GetContainerId()
	limits, more, err := toCRI(update.GetLinux().GetResources())
	if err != nil {
		return err
	}
	if err := s.containers.Limit(ctx, id, limits); err != nil {
		return err
	}
	return s.limitMore(ctx, id, more)
}
