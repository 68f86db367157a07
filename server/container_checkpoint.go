package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CheckpointContainer writes a running container into an archive (KEP-2008), in the format of checkpointctl. The
// container keeps running.
func (s *Server) CheckpointContainer(
	ctx context.Context, req *runtimeapi.CheckpointContainerRequest,
) (*runtimeapi.CheckpointContainerResponse, error) {
	timeout, err := seconds("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := require(need{"location", req.GetLocation() != ""}); err != nil {
		return nil, err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := s.opts.Containers.Checkpoint(ctx, id, req.GetLocation()); err != nil {
		return nil, err
	}
	return &runtimeapi.CheckpointContainerResponse{}, nil
}
