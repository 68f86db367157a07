package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// fullID is the length of an id that is no prefix.
const fullID = 64

// ListContainers returns the containers that match a filter, the newest first.
func (s *Server) ListContainers(ctx context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	list := func() proto.Message {
		return &runtimeapi.ListContainersResponse{Containers: containerItems(snapshot, req.GetFilter())}
	}
	if isEmpty(req.GetFilter()) {
		return s.allContainers.answer(snapshot, list).(*runtimeapi.ListContainersResponse), nil
	}
	return list().(*runtimeapi.ListContainersResponse), nil
}

// StreamContainers is ListContainers as a stream of batches (KEP-5825).
func (s *Server) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	snapshot, err := s.snapshot(stream.Context())
	if err != nil {
		return err
	}
	return sendBatches(containerItems(snapshot, req.GetFilter()), func(batch []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: batch})
	})
}

// containerItems is shared by the list and its streaming twin.
func containerItems(snapshot *state.Snapshot, filter *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	containers := containerCandidates(snapshot, filter)
	items := make([]*runtimeapi.Container, 0, len(containers))
	for _, container := range containers {
		if containerMatches(container, filter) {
			items = append(items, containerItem(container))
		}
	}
	return items
}

// containerCandidates returns the shortest list that the cache keeps ready of
// containers among which all are that match the filter.
func containerCandidates(snapshot *state.Snapshot, filter *runtimeapi.ContainerFilter) []*state.Container {
	uid, labelled := filter.GetLabelSelector()[state.LabelPodUID]
	switch {
	case len(filter.GetPodSandboxId()) == fullID:
		return snapshot.ContainersOf(filter.GetPodSandboxId())
	case labelled:
		return snapshot.ContainersLabelled(uid)
	case filter.GetState() != nil:
		return snapshot.ContainersIn(filter.GetState().GetState())
	default:
		return snapshot.Containers()
	}
}

// containerMatches reports whether a container passes all parts of a filter.
// The ids may be the beginnings of ids, as crictl's users give them.
func containerMatches(c *state.Container, filter *runtimeapi.ContainerFilter) bool {
	return strings.HasPrefix(c.ID, filter.GetId()) &&
		strings.HasPrefix(c.SandboxID, filter.GetPodSandboxId()) &&
		(filter.GetState() == nil || filter.GetState().GetState() == c.Status.State()) &&
		hasLabels(c.Meta.Config.GetLabels(), filter.GetLabelSelector())
}

func containerItem(c *state.Container) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id:           c.ID,
		PodSandboxId: c.SandboxID,
		Metadata:     c.Meta.Config.GetMetadata(),
		Image:        imageOf(c),
		ImageRef:     c.Meta.ImageID,
		State:        c.Status.State(),
		CreatedAt:    nanoseconds(c.Meta.CreatedAt),
		Labels:       c.Meta.Config.GetLabels(),
		Annotations:  c.Meta.Config.GetAnnotations(),
		ImageId:      c.Meta.ImageID,
	}
}

// imageOf names the image as the user did where that is known: clients send an
// id as the image and the name beside it, and show what they get back.
func imageOf(c *state.Container) *runtimeapi.ImageSpec {
	spec := c.Meta.Config.GetImage()
	name := spec.GetUserSpecifiedImage()
	if name == "" {
		name = spec.GetImage()
	}
	return &runtimeapi.ImageSpec{
		Image:              name,
		Annotations:        spec.GetAnnotations(),
		UserSpecifiedImage: spec.GetUserSpecifiedImage(),
		RuntimeHandler:     spec.GetRuntimeHandler(),
	}
}
