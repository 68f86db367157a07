package server

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL at which the streams of a running container are. That
// the container exists and runs is checked before a URL is given out, and again
// when it is used.
func (s *Server) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := require(need{"container_id", req.GetContainerId() != ""}); err != nil {
		return nil, err
	}
	id, err := s.runningContainer(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	url, err := s.opts.Streams.Attach(&runtimeapi.AttachRequest{
		ContainerId: id,
		Tty:         req.GetTty(),
		Stdin:       req.GetStdin(),
		Stdout:      req.GetStdout(),
		Stderr:      req.GetStderr(),
	})
	if err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: url}, nil
}

// runningContainer returns the full id of a container, which must run, or else
// it fails with ErrFailedPrecondition. While the engine is away it fails with
// ErrUnavailable: no session could begin.
func (s *Server) runningContainer(ctx context.Context, idOrPrefix string) (string, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	if err := s.opts.Mirror.Err(); err != nil {
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
