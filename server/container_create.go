package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer creates a container in a pod. The pod configuration comes from RunPodSandbox. The sandbox_config of
// this request may be missing, and only its linux.security_context.privileged is used.
func (s *Server) CreateContainer(
	ctx context.Context, req *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	config := req.GetConfig()
	if err := require(
		need{"pod_sandbox_id", req.GetPodSandboxId() != ""},
		need{"config", config != nil},
		need{"config.metadata", config.GetMetadata() != nil},
		need{"config.metadata.name", config.GetMetadata().GetName() != ""},
		need{"config.image", config.GetImage() != nil},
		need{"config.image.image", config.GetImage().GetImage() != ""},
	); err != nil {
		return nil, err
	}
	_, pod, err := s.pod(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	id, err := s.opts.Containers.Create(ctx, pod.ID, config, req.GetSandboxConfig())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
}
