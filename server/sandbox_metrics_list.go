package server

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListPodSandboxMetrics returns the metrics of the pods that run and of their
// containers, which ListMetricDescriptors describes.
func (s *Server) ListPodSandboxMetrics(ctx context.Context, _ *runtimeapi.ListPodSandboxMetricsRequest) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	items, err := s.listPodSandboxMetrics(ctx)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListPodSandboxMetricsResponse{PodMetrics: items}, nil
}

// StreamPodSandboxMetrics is ListPodSandboxMetrics as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxMetrics(_ *runtimeapi.StreamPodSandboxMetricsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxMetricsResponse]) error {
	items, err := s.listPodSandboxMetrics(stream.Context())
	if err != nil {
		return err
	}
	return sendBatches(items, func(batch []*runtimeapi.PodSandboxMetrics) error {
		return stream.Send(&runtimeapi.StreamPodSandboxMetricsResponse{PodSandboxMetrics: batch})
	})
}

// listPodSandboxMetrics is shared by the list and its streaming twin.
func (s *Server) listPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return s.opts.Stats.Metrics(ctx, snapshot), nil
}
