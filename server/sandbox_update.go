package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdatePodSandboxResources changes the limits of a pod. The kubelet calls it before it resizes the pod's cgroup itself
// (KEP-1287, KEP-5419). Any error except Unimplemented stops the kubelet's resize.
func (s *Server) UpdatePodSandboxResources(
	ctx context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	id, err := s.sandboxID(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if err := s.opts.Sandboxes.UpdateResources(ctx, id, req.GetOverhead(), req.GetResources()); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
