package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamPodSandboxes is ListPodSandbox in pieces (KEP-5825).
func (s *Server) StreamPodSandboxes(req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	snapshot, err := s.snapshot(stream.Context())
	if err != nil {
		return err
	}
	return inPieces(sandboxItems(snapshot, req.GetFilter()), func(piece []*runtimeapi.PodSandbox) error {
		return stream.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: piece})
	})
}
