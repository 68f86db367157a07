package server

import (
	"context"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxToEnd is sandboxID for Stop and Remove, which accept an unknown id: the network may still hold an address for
// it.
func (s *Server) sandboxToEnd(ctx context.Context, idOrPrefix string) (string, error) {
	id, err := s.sandboxID(ctx, idOrPrefix)
	if errdefs.IsNotFound(err) {
		return idOrPrefix, s.opts.Cache.Err()
	}
	return id, err
}

// StopPodSandbox stops a pod's containers and sandbox, and releases its network. The CRI text: "This call is
// idempotent, and must not return an error if all relevant resources have already been reclaimed."
func (s *Server) StopPodSandbox(
	ctx context.Context, req *runtimeapi.StopPodSandboxRequest,
) (*runtimeapi.StopPodSandboxResponse, error) {
	id, err := s.sandboxToEnd(ctx, req.GetPodSandboxId())
	if err == nil {
		err = s.opts.Sandboxes.Stop(ctx, id)
	}
	if err := s.ignoreNotFound(err); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}
