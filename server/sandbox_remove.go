package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemovePodSandbox removes a pod with its containers. The CRI text: "This call is idempotent, and must not return an
// error if the sandbox has already been removed."
func (s *Server) RemovePodSandbox(
	ctx context.Context, req *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	id, err := s.sandboxToEnd(ctx, req.GetPodSandboxId())
	if err == nil {
		err = s.opts.Sandboxes.Remove(ctx, id)
	}
	if err := s.ignoreNotFound(err); err != nil {
		return nil, err
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}
