package server

import (
	"context"
	"errors"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

const (
	// firstSync is how long a request waits for the cache's first complete view when the engine cannot be followed; it
	// may be there in a moment. It is less than the 2 s that crictl waits for an answer, or its user would not get to
	// know why.
	firstSync = time.Second
	// longestSync bounds the wait while the engine's containers are being read, which takes some milliseconds for each.
	longestSync = 30 * time.Second
	// answerTime is what is left of a request's time for its answer that the wait took too long.
	answerTime = 500 * time.Millisecond
	// featuresWait bounds the question what the engine is where the answer is not needed: it comes from memory except
	// after a start, when an engine that hangs must not keep Status and Version from saying so. Less than 2 s, too.
	featuresWait = time.Second
)

// snapshot returns the pods and containers of the node. Until the cache has seen all that the engine holds, it fails
// with ErrUnavailable rather than answer with less: a kubelet would start every pod again that it does not see, and
// take a Stop of one for done.
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

// waitSynced waits for the cache's first complete view: for a moment in any
// case, and for about as long as the caller does while all goes well.
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

// engineFeatures asks the engine what it is and can do, and remembers it.
func (s *Server) engineFeatures(ctx context.Context) (docker.Features, error) {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return docker.Features{}, err
	}
	s.features.Store(&features)
	return features, nil
}

// lastFeatures is what the engine is, or was when it last answered; false when
// it never did. It takes no longer than featuresWait.
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
