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
	// maxImages and maxNames limit the images of a status, as in the kubelet. The scheduler prefers nodes that have a
	// pod's images, which matters only for large images.
	maxImages, maxNames = 50, 5
	// imagesEvery is the time between two lists of images. imagesTimeout bounds the list request, because the status
	// must still be sent when the runtime hangs.
	imagesEvery, imagesTimeout = 30 * time.Second, 2 * time.Second
)

// ContainerImages converts the runtime's images for a node's status: digests before tags.
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

// largest returns the images to report, always in the same order: another order would count as a change.
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

// imageList caches the last list.
type imageList struct {
	asked time.Time
	last  []v1.ContainerImage
}

// get calls ask if the cached list is old. If ask fails, the cached images stay, since they still exist.
func (l *imageList) get(
	ctx context.Context, ask func(context.Context) ([]v1.ContainerImage, error),
) []v1.ContainerImage {
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

// RuntimeFeatures converts the runtime's handlers and features for a node's status.
func RuntimeFeatures(status *runtimeapi.StatusResponse) ([]v1.NodeRuntimeHandler, *v1.NodeFeatures) {
	var handlers []v1.NodeRuntimeHandler
	for _, handler := range status.GetRuntimeHandlers() {
		can := &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(handler.GetFeatures().GetRecursiveReadOnlyMounts()),
			UserNamespaces:          new(handler.GetFeatures().GetUserNamespaces()),
		}
		handlers = append(handlers, v1.NodeRuntimeHandler{Name: handler.GetName(), Features: can})
	}
	slices.SortFunc(handlers, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	if status.GetFeatures() == nil {
		return handlers, nil
	}
	groups := new(status.GetFeatures().GetSupplementalGroupsPolicy())
	return handlers, &v1.NodeFeatures{SupplementalGroupsPolicy: groups}
}
