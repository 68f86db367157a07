package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateContainerResources changes the limits of a container.
func (s *Server) UpdateContainerResources(
	ctx context.Context, req *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	if err := require(
		need{"container_id", req.GetContainerId() != ""},
		need{"linux", req.GetLinux() != nil},
	); err != nil {
		return nil, err
	}
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	update := proto.CloneOf(req)
	update.ContainerId = id
	if err := s.opts.Containers.Update(ctx, update); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}
