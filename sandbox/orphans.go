package sandbox

import (
	"context"
	"errors"
	"time"

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

// collectOrphans does it once.
func (s *Service) collectOrphans(ctx context.Context) error {
	if s.opts.Cache.Err() != nil {
		return nil // without the engine nobody knows which pods there are
	}
	found, err := s.look(ctx)
	err = errors.Join(err, s.apply(ctx, found, release), s.sweepUsers())
	if s.opts.NetworkGC && !s.opts.EngineBridge {
		err = errors.Join(err, s.collectNetwork(ctx, s.opts.Cache.Snapshot()))
	}
	return err
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
