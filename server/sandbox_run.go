package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox creates and starts a pod's sandbox, and sets up its network.
func (s *Server) RunPodSandbox(
	ctx context.Context, req *runtimeapi.RunPodSandboxRequest,
) (*runtimeapi.RunPodSandboxResponse, error) {
	config := req.GetConfig()
	metadata := config.GetMetadata()
	if err := require(
		need{"config", config != nil},
		need{"config.metadata", metadata != nil},
		need{"config.metadata.name", metadata.GetName() != ""},
		need{"config.metadata.namespace", metadata.GetNamespace() != ""},
		need{"config.metadata.uid", metadata.GetUid() != ""},
	); err != nil {
		return nil, err
	}
	if _, err := s.snapshot(ctx); err != nil {
		return nil, err
	}
	id, err := s.opts.Sandboxes.Run(ctx, config, req.GetRuntimeHandler())
	// gRPC does not send a response beside an error. The interceptor logs the id in it.
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, err
}
