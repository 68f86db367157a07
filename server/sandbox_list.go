package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListPodSandbox returns the pods that match a filter, the newest first.
func (s *Server) ListPodSandbox(
	ctx context.Context, req *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	list := func(snapshot *state.Snapshot) *runtimeapi.ListPodSandboxResponse {
		return &runtimeapi.ListPodSandboxResponse{Items: sandboxItems(snapshot, req.GetFilter())}
	}
	return answerList(ctx, s, &s.allSandboxes, req.GetFilter(), list)
}

// StreamPodSandboxes is ListPodSandbox as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxes(
	req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse],
) error {
	return streamList(s, stream, func(snapshot *state.Snapshot) []*runtimeapi.PodSandbox {
		return sandboxItems(snapshot, req.GetFilter())
	}, func(batch []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
		return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: batch}
	})
}

func sandboxItems(snapshot *state.Snapshot, filter *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	return matchingItems(sandboxCandidates(snapshot, filter), filter, sandboxMatches, sandboxItem)
}

// sandboxCandidates is containerCandidates for pods.
func sandboxCandidates(snapshot *state.Snapshot, filter *runtimeapi.PodSandboxFilter) []*state.Pod {
	uid, labelled := filter.GetLabelSelector()[state.LabelPodUID]
	switch {
	case labelled:
		return snapshot.PodsLabelled(uid)
	case filter.GetState() != nil:
		return snapshot.PodsIn(filter.GetState().GetState())
	default:
		return snapshot.Pods()
	}
}

// sandboxMatches is containerMatches for pods.
func sandboxMatches(pod *state.Pod, filter *runtimeapi.PodSandboxFilter) bool {
	return strings.HasPrefix(pod.ID, filter.GetId()) &&
		(filter.GetState() == nil || filter.GetState().GetState() == pod.Status.State()) &&
		hasLabels(pod.Meta.Config.GetLabels(), filter.GetLabelSelector())
}

// hasLabels reports whether labels has all of wanted.
func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func sandboxItem(pod *state.Pod) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id:             pod.ID,
		Metadata:       pod.Meta.Config.GetMetadata(),
		State:          pod.Status.State(),
		CreatedAt:      nanoseconds(pod.Meta.CreatedAt),
		Labels:         pod.Meta.Config.GetLabels(),
		Annotations:    pod.Meta.Config.GetAnnotations(),
		RuntimeHandler: pod.Meta.RuntimeHandler,
	}
}
