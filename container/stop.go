package container

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Stop asks a container to end with its stop signal and kills it after grace, rounded up to seconds by the engine (CRI
// StopContainer: "This call is idempotent, and must not return an error if the container has already been stopped").
// Unknown ids succeed. Stop returns when the container has ended, and waits up to two seconds for the rest of its log.
// When ctx ends first, the container has got its stop signal. The next Stop kills it, or the engine does if the engine
// sent the signal.
func (s *Service) Stop(ctx context.Context, id string, grace time.Duration) error {
	c, err := s.afterStart(ctx, id)
	if err != nil || c == nil {
		return err
	}
	switch c.Status.State() {
	case runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_EXITED:
		return nil
	}
	ended, rest, err := s.stopBySignal(ctx, c, grace)
	if ended || err != nil {
		return err
	}
	if err := docker.IgnoreNotFound(s.opts.Engine.StopContainer(ctx, c.ID, rest)); err != nil {
		return err
	}
	return s.ended(ctx, c)
}

// afterStart looks a container up. For a container that has not started, it first waits for a Start that is under way.
// Unknown ids give nil.
func (s *Service) afterStart(ctx context.Context, id string) (*state.Container, error) {
	c, err := s.find(id)
	if err != nil {
		return nil, docker.IgnoreNotFound(err)
	}
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return c, nil
	}
	c, unlock, err := s.lock(ctx, c.ID)
	if err != nil {
		return nil, docker.IgnoreNotFound(err)
	}
	unlock()
	return c, nil
}

// ended writes the rest of the log and then publishes the exit, because a client that sees the exit reads the log's
// end.
func (s *Service) ended(ctx context.Context, c *state.Container) error {
	s.drainExited(ctx, c)
	if _, err := s.opts.Cache.RefreshContainer(ctx, c.ID); err != nil {
		return docker.IgnoreNotFound(err)
	}
	return nil
}
