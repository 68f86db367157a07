package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StartContainer starts a container that was created.
func (s *Server) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := s.opts.Containers.Start(ctx, id); err != nil {
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// containerID returns the full id of the container that a request names. It
// fails with ErrNotFound when there is none.
func (s *Server) containerID(ctx context.Context, idOrPrefix string) (string, error) {
	if err := require(need{"container_id", idOrPrefix != ""}); err != nil {
		return "", err
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	container, err := snapshot.Container(idOrPrefix)
	if err != nil {
		return "", err
	}
	return container.ID, nil
}
