package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamImages is ListImages in pieces (KEP-5825).
func (s *Server) StreamImages(req *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	images, err := s.opts.Images.List(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	return inPieces(images, func(piece []*runtimeapi.Image) error {
		return stream.Send(&runtimeapi.StreamImagesResponse{Images: piece})
	})
}
