package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListPodSandboxStats returns what the pods that run and match a filter use, the newest first.
func (s *Server) ListPodSandboxStats(ctx context.Context, req *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	items, err := s.listPodSandboxStats(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: items}, nil
}

// StreamPodSandboxStats is ListPodSandboxStats as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxStats(req *runtimeapi.StreamPodSandboxStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	items, err := s.listPodSandboxStats(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(items, func(batch []*runtimeapi.PodSandboxStats) error {
		return stream.Send(&runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: batch})
	})
}

// listPodSandboxStats is shared by the list and its streaming twin.
func (s *Server) listPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	pods := snapshot.Pods()
	matching := make([]*state.Pod, 0, len(pods))
	for _, pod := range pods {
		if strings.HasPrefix(pod.ID, filter.GetId()) && hasLabels(pod.Meta.Config.GetLabels(), filter.GetLabelSelector()) {
			matching = append(matching, pod)
		}
	}
	return s.opts.Stats.Pods(ctx, snapshot, matching), nil
}
