package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StartContainer starts a created container.
func (s *Server) StartContainer(
	ctx context.Context, req *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := s.opts.Containers.Start(ctx, id); err != nil {
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}
