package server

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxID returns the full id of the pod sandbox that a request names by its id or a prefix of it.
func (s *Server) sandboxID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"pod_sandbox_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	pod, err := snapshot.Pod(idOrPrefix)
	if err != nil {
		return "", err
	}
	return pod.ID, nil
}

// containerID returns the full id of the container that a request names. It fails with ErrNotFound when there is none.
func (s *Server) containerID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"container_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	container, err := snapshot.Container(idOrPrefix)
	if err != nil {
		return "", err
	}
	return container.ID, nil
}

// runningContainer returns the full id of a container, which must run, or else it fails with ErrFailedPrecondition.
// While the engine is away it fails with ErrUnavailable: no session could begin.
func (s *Server) runningContainer(ctx context.Context, idOrPrefix string) (string, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	if err := s.opts.Cache.Err(); err != nil {
		return "", err
	}
	c, err := snapshot.Container(idOrPrefix)
	if err != nil {
		return "", err
	}
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return "", fmt.Errorf("container %s does not run: %w", c.ID, errdefs.ErrFailedPrecondition)
	}
	return c.ID, nil
}

// ignoreNotFound is the result of a Stop or Remove, for which it is no error that its object is not there. While the
// engine is away, what is not known may be there nevertheless: then the reason is the result, and the client repeats
// the call later.
func (s *Server) ignoreNotFound(err error) error {
	if !errdefs.IsNotFound(err) {
		return err
	}
	return s.opts.Cache.Err()
}
