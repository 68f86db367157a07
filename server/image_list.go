package server

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListImages returns the images that match a filter.
func (s *Server) ListImages(
	ctx context.Context, req *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	images, err := s.opts.Images.List(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListImagesResponse{Images: images}, nil
}

// StreamImages is ListImages as a stream of batches (KEP-5825).
func (s *Server) StreamImages(
	req *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse],
) error {
	images, err := s.opts.Images.List(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(images, func(batch []*runtimeapi.Image) error {
		return stream.Send(&runtimeapi.StreamImagesResponse{Images: batch})
	})
}
