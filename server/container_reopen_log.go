package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ReopenContainerLog continues a running container's log in a new file after the kubelet has renamed the old one. The
// CRI text: "Once it returns error, new container log file MUST NOT be created."
func (s *Server) ReopenContainerLog(
	ctx context.Context, req *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := s.opts.Containers.ReopenLog(ctx, id); err != nil {
		return nil, err
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
