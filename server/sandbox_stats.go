package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSandboxStats returns the resource usage of one pod.
func (s *Server) PodSandboxStats(
	ctx context.Context, req *runtimeapi.PodSandboxStatsRequest,
) (*runtimeapi.PodSandboxStatsResponse, error) {
	snapshot, pod, err := s.pod(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.opts.Stats.Pod(ctx, snapshot, pod)}, nil
}
