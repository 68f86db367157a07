package imagemanager

import (
	"context"
	"sync"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// recentAge is the greatest age of a list that recent returns. The node status lists more often.
const recentAge = time.Minute

// Images is the runtime's image service, with a cache of the last list. It is safe for concurrent use.
type Images struct {
	internalapi.ImageManagerService

	mu       sync.Mutex
	last     []*runtimeapi.Image
	listed   time.Time // when the call for last began; zero without a list
	removals int       // the calls of RemoveImage that have ended
}

// NewImages makes Images without a cached list.
func NewImages(service internalapi.ImageManagerService) *Images {
	return &Images{ImageManagerService: service}
}

// ListImages always calls the runtime. A list is not cached if a removal ended meanwhile, because the list may have the
// removed image. A list does not replace a cached list that began later.
func (i *Images) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	began := time.Now()
	i.mu.Lock()
	removals := i.removals
	i.mu.Unlock()
	images, err := i.ImageManagerService.ListImages(ctx, filter)
	if err != nil || filter != nil {
		return images, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.removals == removals && !began.Before(i.listed) {
		i.last, i.listed = images, began
	}
	return images, nil
}

// recent returns the last list, or a new one if the last list is older than recentAge. The last list has no image that
// this kubelet removed. It may lack newer images, and may have images that another client removed. A new list may have
// an image that is removed while the list is made.
func (i *Images) recent(ctx context.Context) ([]*runtimeapi.Image, error) {
	i.mu.Lock()
	last, listed := i.last, i.listed
	i.mu.Unlock()
	if !listed.IsZero() && time.Since(listed) < recentAge {
		return last, nil
	}
	return i.ListImages(ctx, nil)
}

// RemoveImage removes an image and drops the cached list.
func (i *Images) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.last, i.listed = nil, time.Time{}
		i.removals++
	}()
	return i.ImageManagerService.RemoveImage(ctx, image)
}
