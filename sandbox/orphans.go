package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/state"
)

// orphanPeriod is the pause between two looks for orphans.
const orphanPeriod = 10 * time.Minute

// CollectOrphans gives back what the CNI network holds, and the namespaces, of pods that are there
// no more, now and then every ten minutes, until ctx ends. Call it after Recover.
func (s *Service) CollectOrphans(ctx context.Context) {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "sandbox"))
	tick := time.NewTicker(orphanPeriod)
	defer tick.Stop()
	for {
		if err := s.collectOrphans(ctx); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn("cannot release all that the network holds for removed pod sandboxes, trying again later")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// collectOrphans does it once. Attachments are listed before pods, because a
// pod's checkpoint is there before it is joined.
func (s *Service) collectOrphans(ctx context.Context) error {
	attached, err := s.opts.Network.Attached()
	if err != nil || s.opts.Cache.Err() != nil {
		return err // without the engine nobody knows which pods there are
	}
	snapshot := s.opts.Cache.Snapshot()
	strays := kernelHolder{s}.strays(ctx, snapshot)
	err = errors.Join(s.releaseAll(ctx, snapshot, attached), inParallel(strays, func(id string) error {
		ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
		defer cancel()
		return s.releaseUnknown(ctx, id)
	}))
	if s.opts.NetworkGC && !s.opts.EngineBridge {
		err = errors.Join(err, s.collectNetwork(ctx, snapshot))
	}
	return err
}

// releaseAll takes the pods off the network that are not in the snapshot. A plugin that hangs for one does not keep the
// others from it. Another runtime may share the cache's directory: its pods have their namespaces elsewhere.
func (s *Service) releaseAll(ctx context.Context, snapshot *state.Snapshot, attached map[string]string) error {
	var orphans []string
	for id, path := range attached {
		if _, err := snapshot.Pod(id); errdefs.IsNotFound(err) && path == s.netnsPath(id) {
			orphans = append(orphans, id)
		}
	}
	return inParallel(orphans, func(id string) error {
		ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
		defer cancel()
		return s.releaseUnknown(ctx, id)
	})
}

// inParallel does one thing for each of a list, some at a time, whether or not it fails for others.
func inParallel[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(recoverLimit)
	for i, item := range list {
		group.Go(func() error { errs[i] = do(item); return nil })
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// collectNetwork lets the plugins themselves remove what they hold for others than our pods.
func (s *Service) collectNetwork(ctx context.Context, snapshot *state.Snapshot) error {
	var ids []string
	for _, pod := range snapshot.Pods() {
		if !pod.Meta.HostNetwork {
			ids = append(ids, pod.ID)
		}
	}
	return s.opts.Network.GC(ctx, ids)
}
