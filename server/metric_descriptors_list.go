package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListMetricDescriptors describes the metrics of ListPodSandboxMetrics. They never change, because the kubelet asks for
// them only once.
func (s *Server) ListMetricDescriptors(
	context.Context, *runtimeapi.ListMetricDescriptorsRequest,
) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return &runtimeapi.ListMetricDescriptorsResponse{Descriptors: s.opts.Stats.MetricDescriptors()}, nil
}
