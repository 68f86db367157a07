package server

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// fullID is the length of a full id.
const fullID = 64

// ListContainers returns the containers that match a filter, the newest first.
func (s *Server) ListContainers(
	ctx context.Context, req *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	list := func(snapshot *state.Snapshot) *runtimeapi.ListContainersResponse {
		return &runtimeapi.ListContainersResponse{Containers: containerItems(snapshot, req.GetFilter())}
	}
	return answerList(ctx, s, &s.allContainers, req.GetFilter(), list)
}

// StreamContainers is ListContainers as a stream of batches (KEP-5825).
func (s *Server) StreamContainers(
	req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse],
) error {
	return streamList(s, stream, func(snapshot *state.Snapshot) []*runtimeapi.Container {
		return containerItems(snapshot, req.GetFilter())
	}, func(batch []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
		return &runtimeapi.StreamContainersResponse{Containers: batch}
	})
}

func containerItems(snapshot *state.Snapshot, filter *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	return matchingItems(containerCandidates(snapshot, filter), filter, containerMatches, containerItem)
}

// containerCandidates returns the shortest of the cache's lists that has all containers that match the filter.
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

// containerMatches reports whether a container passes all parts of a filter. The filter's ids may be prefixes, as users
// of crictl give them.
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

// imageOf returns the image under the name that the user gave, if the request had that name. The kubelet's
// CreateContainer names the image by its id, and has the user's name in another field. In the pod's status the kubelet
// shows the name from this answer. The runtime handler is empty, as in ListImages, because all handlers share the
// images. The kubelet compares the handlers of image and container (KEP-4216). If they differed, its image garbage
// collection would treat the image as unused.
func imageOf(c *state.Container) *runtimeapi.ImageSpec {
	spec := c.Meta.Config.GetImage()
	return &runtimeapi.ImageSpec{
		Image:              cmp.Or(spec.GetUserSpecifiedImage(), spec.GetImage()),
		Annotations:        spec.GetAnnotations(),
		UserSpecifiedImage: spec.GetUserSpecifiedImage(),
	}
}
