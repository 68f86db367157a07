package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoveContainer removes a container, running or not. The CRI text: "This call is idempotent, and must not return an
// error if the container has already been removed."
func (s *Server) RemoveContainer(
	ctx context.Context, req *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	id, err := s.containerID(ctx, req.GetContainerId())
	if err == nil {
		err = s.opts.Containers.Remove(ctx, id)
	}
	if err := s.ignoreNotFound(err); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}
