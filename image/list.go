package image

import (
	"context"
	"slices"
	"strings"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// List returns the images that match filter, in the order of their ids. A filter without an image matches all. A
// filter's image is an id, an id prefix or a name. A name without tag and digest matches all tags of its repository, as
// in `docker images NAME`.
//
// The list is from memory, see the package comment. Callers share the images and must not change them.
func (s *Service) List(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	now, err := s.images.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	want := filter.GetImage().GetImage()
	images, pinned := make([]*runtimeapi.Image, 0, len(now.byID)), s.pinned()
	for _, e := range now.byID {
		if matches(e.img, want) {
			images = append(images, show(e, pinned))
		}
	}
	return images, nil
}

// matches reports whether a filter for want selects img.
func matches(img *runtimeapi.Image, want string) bool {
	if want == "" || img.GetId() == want {
		return true
	}
	id := strings.TrimPrefix(want, idAlgorithm)
	if id != "" && strings.HasPrefix(strings.TrimPrefix(img.GetId(), idAlgorithm), id) {
		return true
	}
	named, err := reference.ParseNormalizedNamed(want)
	if err != nil {
		return false
	}
	anyOfRepository := reference.IsNameOnly(named)
	return slices.ContainsFunc(append(slices.Clone(img.GetRepoTags()), img.GetRepoDigests()...),
		func(name string) bool {
			if anyOfRepository {
				have, err := reference.ParseNormalizedNamed(name)
				return err == nil && have.Name() == named.Name()
			}
			return normalName(name) == normalName(want)
		})
}
