package server

import (
	"context"
	"errors"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

const (
	// firstSync bounds a request's wait for the cache's first relist while the engine is away. It is less than the 2 s
	// after which crictl gives up, so that crictl shows the reason.
	firstSync = time.Second
	// longestSync bounds the wait while the engine's containers are being read, which takes some milliseconds each.
	longestSync = 30 * time.Second
	// answerTime is the part of a request's time that the wait leaves for the answer.
	answerTime = 500 * time.Millisecond
	// featuresWait bounds the call for the engine's features in Status and Version, which work without them. The
	// features are cached except after a start. Like firstSync, it is less than 2 s.
	featuresWait = time.Second
)

// snapshot returns the pods and containers of the node. Before the cache's first relist it fails with ErrUnavailable,
// or with ctx's error. With an incomplete list, the kubelet would start missing pods again, and a Stop of a missing pod
// would count as done.
func (s *Server) snapshot(ctx context.Context) (*state.Snapshot, error) {
	if s.synced.Load() {
		return s.opts.Cache.Snapshot(), nil
	}
	if !s.waitSynced(ctx) {
		return nil, s.notSynced(ctx)
	}
	s.synced.Store(true)
	return s.opts.Cache.Snapshot(), nil
}

// waitSynced waits for the cache's first relist, for firstSync. If the engine then has no error, it waits on for at
// most longestSync, and ends answerTime before the caller's deadline.
func (s *Server) waitSynced(ctx context.Context) bool {
	if s.syncedWithin(ctx, s.firstSync) {
		return true
	}
	if err := s.opts.Cache.Err(); err != nil && !errors.Is(err, state.ErrStarting) {
		return false
	}
	limit := s.longestSync
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-answerTime)
	}
	return s.syncedWithin(ctx, limit)
}

func (s *Server) syncedWithin(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s.opts.Cache.WaitSynced(ctx) != nil {
		return false
	}
	if s.opts.Recovered == nil {
		return true
	}
	select {
	case <-s.opts.Recovered:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) notSynced(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.opts.Cache.Err(); err != nil {
		return err
	}
	return state.ErrStarting
}

// engineFeatures returns and caches the engine's features.
func (s *Server) engineFeatures(ctx context.Context) (docker.Features, error) {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return docker.Features{}, err
	}
	s.features.Store(&features)
	return features, nil
}

// lastFeatures returns the engine's present or last features, false if it never answered. The call takes at most
// featuresWait.
func (s *Server) lastFeatures(ctx context.Context) (docker.Features, bool) {
	ctx, cancel := context.WithTimeout(ctx, featuresWait)
	defer cancel()
	if features, err := s.engineFeatures(ctx); err == nil {
		return features, true
	}
	if last := s.features.Load(); last != nil {
		return *last, true
	}
	return docker.Features{}, false
}
