package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// orphanPeriod is the pause between two looks for orphans.
const orphanPeriod = 10 * time.Minute

// CollectOrphans releases addresses and namespaces of pods that are gone, at once and then every ten minutes, until ctx
// ends. Call it after Recover.
func (s *Service) CollectOrphans(ctx context.Context) {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "sandbox"))
	tick := time.NewTicker(orphanPeriod)
	defer tick.Stop()
	for {
		if err := s.collectOrphans(ctx); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).
				Warn("cannot release all addresses and namespaces of removed pod sandboxes, trying again later")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// collectOrphans makes one pass of CollectOrphans.
func (s *Service) collectOrphans(ctx context.Context) error {
	if s.opts.Cache.Err() != nil {
		return nil // without the engine the list of pods may be incomplete
	}
	found, err := s.look(ctx)
	err = errors.Join(err, apply(ctx, found, actRelease, s.releaseUnknown), s.sweepUsers(ctx))
	if s.opts.NetworkGC && !s.opts.EngineBridge {
		err = errors.Join(err, s.collectNetwork(ctx, s.opts.Cache.Snapshot()))
	}
	return err
}

// collectNetwork has the CNI plugins remove attachments of pods that are not in the snapshot.
func (s *Service) collectNetwork(ctx context.Context, snapshot *state.Snapshot) error {
	var ids []string
	for _, pod := range snapshot.Pods() {
		if !pod.Meta.HostNetwork {
			ids = append(ids, pod.ID)
		}
	}
	return s.opts.Network.GC(ctx, ids)
}

// sweepUsers removes pins of user namespaces without a pod, which a crash left. It lists the pins first, then the pods
// that are being set up, then the records and the existing pods. So a pod whose set-up ends meanwhile keeps its pin. If
// a record cannot be read, sweepUsers removes no pin.
func (s *Service) sweepUsers(ctx context.Context) error {
	pins, err := filepath.Glob(s.users.prefix() + "*")
	if err != nil || len(pins) == 0 {
		return err
	}
	kept := map[string]bool{}
	for _, name := range s.inflight.names() {
		kept[s.users.path(name)] = true
	}
	listing, err := s.opts.Store.List(ctx)
	if err != nil || len(listing.Refused) > 0 {
		return err
	}
	for _, record := range listing.Records {
		kept[record.UserNamespace] = true
	}
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		kept[s.users.path(pod.Meta.Name)] = true
	}
	var errs []error
	for _, pin := range pins {
		if !kept[pin] {
			errs = append(errs, netns.Set{User: pin}.Unpin())
		}
	}
	return errors.Join(errs...)
}
