package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamContainerStats is not implemented yet.
func (s *Server) StreamContainerStats(*runtimeapi.StreamContainerStatsRequest, grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	return later("the stream of container stats")
}
