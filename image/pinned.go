package image

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
)

// foreignPause is the minimum time between two lists of the containers that belong to no pod.
const foreignPause = 45 * time.Second

// pinned returns a function that reports whether an image is pinned. The sandbox image is, and so are the images of
// containers that a kubelet does not list. The kubelet's image garbage collection would fail at them, because Remove
// refuses an image in use.
func (s *Service) pinned() func(*entry) bool {
	podImages, foreign := s.podImages(), map[string]bool{}
	if known := s.foreignImages.Load(); known != nil {
		now := s.images.now.Load()
		for ref := range *known { // a container may be listed before the image that it names
			foreign[now.idOf(ref)] = true
		}
	}
	return func(e *entry) bool { return s.sandbox.matches(e) || podImages[e.id()] || foreign[e.id()] }
}

// show returns the image as CRI has it.
func show(e *entry, pinned func(*entry) bool) *runtimeapi.Image {
	if !pinned(e) {
		return e.img
	}
	img := proto.CloneOf(e.img)
	img.Pinned = true
	return img
}

// ForeignChanged reports that a container of no pod was created or removed, perhaps before the present connection to
// the engine. It never blocks.
func (s *Service) ForeignChanged() {
	select {
	case s.foreignAsked <- struct{}{}:
	default:
	}
}

// followForeign keeps foreignImages up to date until ctx ends.
func (s *Service) followForeign(ctx context.Context) {
	for {
		select {
		case <-s.foreignAsked:
		case <-ctx.Done():
			return
		}
		s.lookAtForeign(ctx)
		if pace.Sleep(ctx, foreignPause) != nil {
			return
		}
	}
}

// lookAtForeign lists the engine's containers. After a failure, the last result stays until the next list. Package
// state logs the failure.
func (s *Service) lookAtForeign(ctx context.Context) {
	containers, err := s.engine.ListContainers(ctx, nil)
	if err != nil {
		s.ForeignChanged()
		return
	}
	images := map[string]bool{}
	for _, c := range containers {
		if s.foreign(c) {
			for _, ref := range append(s.mounted(c), c.ImageID) {
				images[ref] = true
			}
		}
	}
	s.foreignImages.Store(&images)
}
