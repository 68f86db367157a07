package server

import (
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamPodSandboxStats is not implemented yet.
func (s *Server) StreamPodSandboxStats(*runtimeapi.StreamPodSandboxStatsRequest, grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	return later("the stream of pod stats")
}
