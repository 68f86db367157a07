package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ListPodSandbox returns the pods that match a filter, the newest first.
func (s *Server) ListPodSandbox(ctx context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	list := func() proto.Message {
		return &runtimeapi.ListPodSandboxResponse{Items: sandboxItems(snapshot, req.GetFilter())}
	}
	if isEmpty(req.GetFilter()) {
		return s.allSandboxes.answer(snapshot, list).(*runtimeapi.ListPodSandboxResponse), nil
	}
	return list().(*runtimeapi.ListPodSandboxResponse), nil
}

// StreamPodSandboxes is ListPodSandbox as a stream of batches (KEP-5825).
func (s *Server) StreamPodSandboxes(req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	snapshot, err := s.snapshot(stream.Context())
	if err != nil {
		return err
	}
	return sendBatches(sandboxItems(snapshot, req.GetFilter()), func(batch []*runtimeapi.PodSandbox) error {
		return stream.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: batch})
	})
}

// sandboxItems is shared by the list and its streaming twin.
func sandboxItems(snapshot *state.Snapshot, filter *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	pods := sandboxCandidates(snapshot, filter)
	items := make([]*runtimeapi.PodSandbox, 0, len(pods))
	for _, pod := range pods {
		if sandboxMatches(pod, filter) {
			items = append(items, sandboxItem(pod))
		}
	}
	return items
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

// sandboxMatches reports whether a pod passes all parts of a filter. The id may
// be the beginning of one, as crictl's users give it.
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
