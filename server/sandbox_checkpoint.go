package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CheckpointPod writes a checkpoint of each named container of a pod into a directory. All checkpoints are of the same
// moment. The containers keep running.
func (s *Server) CheckpointPod(
	ctx context.Context, req *runtimeapi.CheckpointPodRequest,
) (*runtimeapi.CheckpointPodResponse, error) {
	id, err := s.sandboxID(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if err := require(
		need{"output_path", req.GetOutputPath() != ""},
		need{"container_ids", len(req.GetContainerIds()) > 0},
	); err != nil {
		return nil, err
	}
	if err := s.opts.Sandboxes.Checkpoint(ctx, id, req.GetOutputPath(), req.GetContainerIds()); err != nil {
		return nil, err
	}
	return &runtimeapi.CheckpointPodResponse{}, nil
}
