package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage fetches an image from its registry.
func (s *Server) PullImage(
	ctx context.Context, req *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	if err := requireImage(req.GetImage()); err != nil {
		return nil, err
	}
	ref, err := s.opts.Images.Pull(ctx, req.GetImage(), req.GetAuth())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: ref}, nil
}
