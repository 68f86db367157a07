package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListContainerStats returns what the running containers that match a filter use, the newest first.
func (s *Server) ListContainerStats(ctx context.Context, req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	items, err := s.listContainerStats(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ListContainerStatsResponse{Stats: items}, nil
}

// StreamContainerStats is ListContainerStats as a stream of batches (KEP-5825).
func (s *Server) StreamContainerStats(req *runtimeapi.StreamContainerStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	items, err := s.listContainerStats(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(items, func(batch []*runtimeapi.ContainerStats) error {
		return stream.Send(&runtimeapi.StreamContainerStatsResponse{ContainerStats: batch})
	})
}

// listContainerStats is shared by the list and its streaming twin.
func (s *Server) listContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	containers := snapshot.Containers()
	matching := make([]*state.Container, 0, len(containers))
	for _, container := range containers {
		if containerStatsMatches(container, filter) {
			matching = append(matching, container)
		}
	}
	return s.opts.Stats.Containers(ctx, snapshot, matching), nil
}

// containerStatsMatches is containerMatches for the filter of stats, which has
// no state: only running containers have any.
func containerStatsMatches(c *state.Container, filter *runtimeapi.ContainerStatsFilter) bool {
	return strings.HasPrefix(c.ID, filter.GetId()) &&
		strings.HasPrefix(c.SandboxID, filter.GetPodSandboxId()) &&
		hasLabels(c.Meta.Config.GetLabels(), filter.GetLabelSelector())
}
