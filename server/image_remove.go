package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoveImage removes an image with all its names. The CRI text: "This call is idempotent, and must not return an error
// if the image has already been removed."
func (s *Server) RemoveImage(
	ctx context.Context, req *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	if err := requireImage(req.GetImage()); err != nil {
		return nil, err
	}
	if err := s.opts.Images.Remove(ctx, req.GetImage()); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}
