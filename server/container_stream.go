package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamContainers is ListContainers in pieces (KEP-5825).
func (s *Server) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	snapshot, err := s.snapshot(stream.Context())
	if err != nil {
		return err
	}
	return inPieces(containerItems(snapshot, req.GetFilter()), func(piece []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: piece})
	})
}
