package server

import (
	"context"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopPodSandbox stops a pod's containers and its sandbox and gives its network
// back. The CRI text: "This call is idempotent, and must not return an error if
// all relevant resources have already been reclaimed."
func (s *Server) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if err := require(need{"pod_sandbox_id", req.GetPodSandboxId() != ""}); err != nil {
		return nil, err
	}
	if _, err := s.snapshot(ctx); err != nil {
		return nil, err
	}
	if err := s.opts.Sandboxes.Stop(ctx, req.GetPodSandboxId()); err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}
