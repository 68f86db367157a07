package imagemanager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// slowLists is a service whose ListImages makes a list, calls meanwhile, and then returns the list.
type slowLists struct {
	*service
	meanwhile func()
}

func (s *slowLists) ListImages(
	ctx context.Context, filter *runtimeapi.ImageFilter,
) ([]*runtimeapi.Image, error) {
	images, err := s.service.ListImages(ctx, filter)
	s.meanwhile()
	return images, err
}

// TestRecentOfTwoLists makes a list while another list is under way. The later list stays cached.
func TestRecentOfTwoLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLists{service: &service{}}
		images := NewImages(s)
		s.meanwhile = func() {
			s.meanwhile = func() {}
			time.Sleep(time.Second)
			s.present = []*runtimeapi.Image{{Id: "new"}}
			_, err := images.ListImages(t.Context(), nil)
			testutil.Must(t, err)
		}
		_, err := images.ListImages(t.Context(), nil)
		testutil.Must(t, err)
		got, err := images.recent(t.Context())
		testutil.Assert(t, err == nil && len(got) == 1 && s.lists == 2, "%v, %v after %d lists", got, err, s.lists)
	})
}

// TestRecentWithoutRemovedImages removes an image while a list is under way. The list is not cached.
func TestRecentWithoutRemovedImages(t *testing.T) {
	s := &slowLists{service: &service{present: []*runtimeapi.Image{{Id: "old"}}}}
	images := NewImages(s)
	s.meanwhile = func() {
		testutil.Must(t, images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "old"}))
		s.present = nil
	}
	_, err := images.ListImages(t.Context(), nil)
	testutil.Must(t, err)
	s.meanwhile = func() {}
	for range 2 {
		got, err := images.recent(t.Context())
		testutil.Assert(t, err == nil && len(got) == 0, "images after the removal: %v, %v", got, err)
	}
	testutil.Equal(t, s.lists, 2, "lists of the runtime")
}
