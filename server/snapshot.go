package server

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

const (
	// firstSync is how long a request waits for the mirror's first complete
	// view; on a healthy node it is there sooner. It is less than the 2 s that
	// crictl waits for an answer, or its user would not get to know why.
	firstSync = time.Second
	// featuresWait bounds the question what the engine is where the answer is
	// not needed: it comes from memory except after a start, when an engine that
	// hangs must not keep Status and Version from saying so. Less than 2 s, too.
	featuresWait = time.Second
)

// snapshot returns the pods and containers of the node. Until the mirror has
// seen all that the engine holds, it fails with ErrUnavailable rather than
// answer with less: a kubelet would start every pod again that it does not see,
// and take a Stop of one for done.
func (s *Server) snapshot(ctx context.Context) (*state.Snapshot, error) {
	if s.synced.Load() {
		return s.opts.Mirror.Snapshot(), nil
	}
	wait, cancel := context.WithTimeout(ctx, s.firstSync)
	defer cancel()
	if err := s.opts.Mirror.WaitSynced(wait); err != nil {
		return nil, s.notSynced(ctx)
	}
	s.synced.Store(true)
	return s.opts.Mirror.Snapshot(), nil
}

// unlessGone is the result of a Stop or Remove, for which it is no error that
// its object is not there. While the engine is away, what is not known may be
// there nevertheless: then the reason is the result, and the client repeats the
// call later.
func (s *Server) unlessGone(err error) error {
	if !errdefs.IsNotFound(err) {
		return err
	}
	return s.opts.Mirror.Err()
}

func (s *Server) notSynced(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.opts.Mirror.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the engine's containers are still being read, try again: %w", errdefs.ErrUnavailable)
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
