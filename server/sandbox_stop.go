package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxID returns the full id of the pod sandbox that a request names by its
// id or a prefix of it.
func (s *Server) sandboxID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"pod_sandbox_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	pod, err := snapshot.Pod(idOrPrefix)
	if err != nil {
		return "", err
	}
	return pod.ID, nil
}

// StopPodSandbox stops a pod's containers and its sandbox and gives its network
// back. The CRI text: "This call is idempotent, and must not return an error if
// all relevant resources have already been reclaimed."
func (s *Server) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	id, err := s.sandboxID(ctx, req.GetPodSandboxId())
	if err == nil {
		err = s.opts.Sandboxes.Stop(ctx, id)
	}
	if err := s.unlessGone(err); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}
