package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopContainer stops a container, by force after the timeout. The CRI text: "This call is idempotent, and must not
// return an error if the container has already been stopped." It succeeds for a container that does not exist.
func (s *Server) StopContainer(
	ctx context.Context, req *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	grace, err := seconds("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	id, err := s.containerID(ctx, req.GetContainerId())
	if err == nil {
		err = s.opts.Containers.Stop(ctx, id, grace)
	}
	if err := s.ignoreNotFound(err); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}
