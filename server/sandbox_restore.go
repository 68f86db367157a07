package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RestorePod makes a pod from a checkpoint. Its containers are CREATED. Each continues at the checkpoint when it is
// started.
func (s *Server) RestorePod(
	ctx context.Context, req *runtimeapi.RestorePodRequest,
) (*runtimeapi.RestorePodResponse, error) {
	config := req.GetConfig()
	metadata := config.GetMetadata()
	if err := require(
		need{"checkpoint_path", req.GetCheckpointPath() != ""},
		need{"config", config != nil},
		need{"config.metadata", metadata != nil},
		need{"config.metadata.name", metadata.GetName() != ""},
		need{"config.metadata.namespace", metadata.GetNamespace() != ""},
		need{"config.metadata.uid", metadata.GetUid() != ""},
		need{"container_configs", len(req.GetContainerConfigs()) > 0},
	); err != nil {
		return nil, err
	}
	if _, err := s.snapshot(ctx); err != nil {
		return nil, err
	}
	id, containers, err := s.opts.Sandboxes.Restore(ctx, req.GetCheckpointPath(), config, req.GetRuntimeHandler(),
		req.GetContainerConfigs())
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.RestorePodResponse{PodSandboxId: id}
	for _, c := range req.GetContainerConfigs() {
		name := c.GetMetadata().GetName()
		response.RestoredContainers = append(response.RestoredContainers,
			&runtimeapi.RestoredContainer{Name: name, ContainerId: containers[name]})
	}
	return response, nil
}
