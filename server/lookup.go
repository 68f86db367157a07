package server

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// sandboxID returns the full id of a pod sandbox from its id or an id prefix.
func (s *Server) sandboxID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"pod_sandbox_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	_, pod, err := s.pod(ctx, idOrPrefix)
	if err != nil {
		return "", err
	}
	return pod.ID, nil
}

// containerID returns the full id of a container from its id or an id prefix. It fails with ErrNotFound if there is
// none.
func (s *Server) containerID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"container_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	_, container, err := s.container(ctx, idOrPrefix)
	if err != nil {
		return "", err
	}
	return container.ID, nil
}

// pod returns a pod sandbox and the snapshot that it is in.
func (s *Server) pod(ctx context.Context, idOrPrefix string) (*state.Snapshot, *state.Pod, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	pod, err := snapshot.Pod(idOrPrefix)
	return snapshot, pod, err
}

// container returns a container and the snapshot that it is in.
func (s *Server) container(ctx context.Context, idOrPrefix string) (*state.Snapshot, *state.Container, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	container, err := snapshot.Container(idOrPrefix)
	return snapshot, container, err
}

// runningContainer returns the full id of a running container. It fails with ErrFailedPrecondition if the container
// does not run, and with ErrUnavailable while the engine is away.
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

// ignoreNotFound is the result of a Stop or Remove, which succeeds if its object does not exist. While the engine is
// away, an unknown object may exist. Then the result is the engine's error, so that the client tries again.
func (s *Server) ignoreNotFound(err error) error {
	if !errdefs.IsNotFound(err) {
		return err
	}
	return s.opts.Cache.Err()
}
