package server

import (
	"context"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemovePodSandbox removes a pod with its containers. The CRI text: "This call
// is idempotent, and must not return an error if the sandbox has already been
// removed."
func (s *Server) RemovePodSandbox(ctx context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if err := require(need{"pod_sandbox_id", req.GetPodSandboxId() != ""}); err != nil {
		return nil, err
	}
	if _, err := s.snapshot(ctx); err != nil {
		return nil, err
	}
	if err := s.opts.Sandboxes.Remove(ctx, req.GetPodSandboxId()); err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}
