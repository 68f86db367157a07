package server

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListPodSandboxMetrics returns the metrics of the running pods and their containers. ListMetricDescriptors describes
// them.
func (s *Server) ListPodSandboxMetrics(
	ctx context.Context, _ *runtimeapi.ListPodSandboxMetricsRequest,
) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListPodSandboxMetricsResponse{PodMetrics: s.opts.Stats.Metrics(ctx, snapshot)}, nil
}

// StreamPodSandboxMetrics is ListPodSandboxMetrics as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxMetrics(
	_ *runtimeapi.StreamPodSandboxMetricsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxMetricsResponse],
) error {
	return streamList(s, stream, func(snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics {
		return s.opts.Stats.Metrics(stream.Context(), snapshot)
	}, func(batch []*runtimeapi.PodSandboxMetrics) *runtimeapi.StreamPodSandboxMetricsResponse {
		return &runtimeapi.StreamPodSandboxMetricsResponse{PodSandboxMetrics: batch}
	})
}
