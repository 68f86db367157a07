package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxImages and maxNames bound what a status has of images, as the kubelet does; the scheduler prefers nodes that
	// have a pod's images, which matters for large ones alone.
	maxImages, maxNames = 50, 5
	// imagesEvery is how long a list of images is reported; imagesTimeout bounds the request, because a runtime that
	// hangs is what the status is there to report.
	imagesEvery, imagesTimeout = 30 * time.Second, 2 * time.Second
)

// ContainerImages are the runtime's images as a node's status has them: digests before tags.
func ContainerImages(images []*runtimeapi.Image) []v1.ContainerImage {
	var list []v1.ContainerImage
	for _, image := range images {
		names := slices.Concat(image.GetRepoDigests(), image.GetRepoTags())
		if len(names) > 0 {
			list = append(list, v1.ContainerImage{Names: names, SizeBytes: int64(image.GetSize())})
		}
	}
	return list
}

// largest are the images that are reported. The order is the same each time, or every look would be a change.
func largest(images []v1.ContainerImage) []v1.ContainerImage {
	sorted := slices.SortedFunc(slices.Values(images), func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	sorted = sorted[:min(len(sorted), maxImages)]
	for i := range sorted {
		sorted[i].Names = sorted[i].Names[:min(len(sorted[i].Names), maxNames)]
	}
	return sorted
}

// imageList remembers the last answer.
type imageList struct {
	asked time.Time
	last  []v1.ContainerImage
}

// get asks when the last answer is old. A runtime that does not answer leaves what is known: its images are still there.
func (l *imageList) get(ctx context.Context, ask func(context.Context) ([]v1.ContainerImage, error)) []v1.ContainerImage {
	if ask == nil || !l.asked.IsZero() && time.Since(l.asked) < imagesEvery {
		return l.last
	}
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()
	images, err := ask(ctx)
	l.asked = time.Now()
	if err != nil {
		log.G(ctx).WithError(err).Debug("images cannot be listed, the node status keeps the last ones")
		return l.last
	}
	l.last = largest(images)
	return l.last
}

// RuntimeFeatures are the runtime's handlers and features as a node's status has them.
func RuntimeFeatures(status *runtimeapi.StatusResponse) ([]v1.NodeRuntimeHandler, *v1.NodeFeatures) {
	var handlers []v1.NodeRuntimeHandler
	for _, handler := range status.GetRuntimeHandlers() {
		readOnly, users := handler.GetFeatures().GetRecursiveReadOnlyMounts(), handler.GetFeatures().GetUserNamespaces()
		handlers = append(handlers, v1.NodeRuntimeHandler{
			Name: handler.GetName(), Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &readOnly, UserNamespaces: &users},
		})
	}
	slices.SortFunc(handlers, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	if status.GetFeatures() == nil {
		return handlers, nil
	}
	groups := status.GetFeatures().GetSupplementalGroupsPolicy()
	return handlers, &v1.NodeFeatures{SupplementalGroupsPolicy: &groups}
}
