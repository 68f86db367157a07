package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamContainers is ListContainers in pieces (KEP-5825).
func (s *Server) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	items, err := s.listContainers(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	return inPieces(items, func(piece []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: piece})
	})
}
