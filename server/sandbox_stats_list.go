package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListPodSandboxStats returns the resource usage of the running pods that match a filter, the newest first.
func (s *Server) ListPodSandboxStats(
	ctx context.Context, req *runtimeapi.ListPodSandboxStatsRequest,
) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: s.sandboxStats(ctx, snapshot, req.GetFilter())}, nil
}

// StreamPodSandboxStats is ListPodSandboxStats as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxStats(
	req *runtimeapi.StreamPodSandboxStatsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse],
) error {
	return streamList(s, stream, func(snapshot *state.Snapshot) []*runtimeapi.PodSandboxStats {
		return s.sandboxStats(stream.Context(), snapshot, req.GetFilter())
	}, func(batch []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
		return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: batch}
	})
}

func (s *Server) sandboxStats(
	ctx context.Context, snapshot *state.Snapshot, filter *runtimeapi.PodSandboxStatsFilter,
) []*runtimeapi.PodSandboxStats {
	return s.opts.Stats.Pods(ctx, snapshot, matchingItems(snapshot.Pods(), filter, sandboxStatsMatch, asIs))
}

func sandboxStatsMatch(pod *state.Pod, filter *runtimeapi.PodSandboxStatsFilter) bool {
	return strings.HasPrefix(pod.ID, filter.GetId()) &&
		hasLabels(pod.Meta.Config.GetLabels(), filter.GetLabelSelector())
}
