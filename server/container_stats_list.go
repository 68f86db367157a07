package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListContainerStats returns the resource usage of the running containers that match a filter, the newest first.
func (s *Server) ListContainerStats(
	ctx context.Context, req *runtimeapi.ListContainerStatsRequest,
) (*runtimeapi.ListContainerStatsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListContainerStatsResponse{Stats: s.containerStats(ctx, snapshot, req.GetFilter())}, nil
}

// StreamContainerStats is ListContainerStats as a stream of batches (KEP-5825).
func (s *Server) StreamContainerStats(
	req *runtimeapi.StreamContainerStatsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse],
) error {
	return streamList(s, stream, func(snapshot *state.Snapshot) []*runtimeapi.ContainerStats {
		return s.containerStats(stream.Context(), snapshot, req.GetFilter())
	}, func(batch []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
		return &runtimeapi.StreamContainerStatsResponse{ContainerStats: batch}
	})
}

func (s *Server) containerStats(
	ctx context.Context, snapshot *state.Snapshot, filter *runtimeapi.ContainerStatsFilter,
) []*runtimeapi.ContainerStats {
	containers := matchingItems(snapshot.Containers(), filter, containerStatsMatch, asIs)
	return s.opts.Stats.Containers(ctx, snapshot, containers)
}

// containerStatsMatch is containerMatches for a filter of stats. Such a filter has no state, because only running
// containers have stats.
func containerStatsMatch(c *state.Container, filter *runtimeapi.ContainerStatsFilter) bool {
	return strings.HasPrefix(c.ID, filter.GetId()) &&
		strings.HasPrefix(c.SandboxID, filter.GetPodSandboxId()) &&
		hasLabels(c.Meta.Config.GetLabels(), filter.GetLabelSelector())
}
