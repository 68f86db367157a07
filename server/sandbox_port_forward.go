package server

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PortForward returns a URL for connections to ports of a pod. It fails with ErrFailedPrecondition if the pod is not
// ready.
func (s *Server) PortForward(
	ctx context.Context, req *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	if err := require(need{"pod_sandbox_id", req.GetPodSandboxId() != ""}); err != nil {
		return nil, err
	}
	_, pod, err := s.pod(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, fmt.Errorf("pod sandbox %s is not ready: %w", pod.ID, errdefs.ErrFailedPrecondition)
	}
	url, err := s.opts.Streams.PortForward(ctx,
		&runtimeapi.PortForwardRequest{PodSandboxId: pod.ID, Port: req.GetPort()})
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PortForwardResponse{Url: url}, nil
}
