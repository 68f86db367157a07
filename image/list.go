package image

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/image"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inspectsAtOnce is the number of images that a list inspects concurrently. An inspect costs the engine up to 10 ms,
// and the first list of a node may need hundreds.
const inspectsAtOnce = 4

// List returns the images that match filter, or all without an image in it. A filter's image is an id, an id prefix or
// a name. A name without tag and digest matches all tags of its repository, as in `docker images NAME`.
func (s *Service) List(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	summaries, err := s.engine.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	users, err := s.users(ctx, summaries)
	if err != nil {
		return nil, err
	}
	want := filter.GetImage().GetImage()
	images := make([]*runtimeapi.Image, 0, len(summaries))
	for _, summary := range summaries {
		user, present := users[summary.ID]
		if !present {
			continue
		}
		img := s.fromSummary(summary, user)
		s.facts.rename(img.GetId(), img.GetRepoDigests())
		if matches(img, want) {
			images = append(images, img)
		}
	}
	return images, nil
}

// users returns the default user of each image by id. It leaves out an image that was removed after the list. Only
// images that were never seen before cost a call. The user is unknown if the engine cannot inspect the image, so that
// one damaged image does not hide the others.
func (s *Service) users(ctx context.Context, summaries []image.Summary) (map[string]string, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(inspectsAtOnce)
	ids := make(map[string]bool, len(summaries))
	for _, summary := range summaries {
		id := summary.ID
		if _, known := s.facts.of(id); known || ids[id] {
			ids[id] = true
			continue
		}
		ids[id] = true
		group.Go(func() error {
			_, err := s.inspect(groupCtx, id)
			switch {
			case errdefs.IsNotFound(err):
				s.facts.forget(id)
				return nil
			case err == nil || groupCtx.Err() != nil || errdefs.IsUnavailable(err):
				return err
			}
			if s.facts.fail(id) {
				log.G(ctx).WithError(err).WithField("imageID", id).
					Warn("engine cannot inspect image, listing it without its user: pull it again or remove it")
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.facts.keep(ids)
	users := make(map[string]string, len(ids))
	for id := range ids {
		if user, listed := s.facts.user(id); listed {
			users[id] = user
		}
	}
	return users, nil
}

// inspect inspects one image and caches its facts.
func (s *Service) inspect(ctx context.Context, ref string) (*image.InspectResponse, error) {
	inspect, err := s.engine.InspectImage(ctx, ref)
	if err != nil {
		return nil, err
	}
	s.facts.put(inspect.ID, fact{user: defaultUser(inspect), digests: inspect.RepoDigests})
	return inspect, nil
}

// matches reports whether a filter for want selects img.
func matches(img *runtimeapi.Image, want string) bool {
	if want == "" || img.GetId() == want {
		return true
	}
	if id := strings.TrimPrefix(want, "sha256:"); id != "" && strings.HasPrefix(strings.TrimPrefix(img.GetId(), "sha256:"), id) {
		return true
	}
	named, err := reference.ParseNormalizedNamed(want)
	if err != nil {
		return false
	}
	anyOfRepository := reference.IsNameOnly(named)
	return slices.ContainsFunc(append(slices.Clone(img.GetRepoTags()), img.GetRepoDigests()...), func(name string) bool {
		if anyOfRepository {
			have, err := reference.ParseNormalizedNamed(name)
			return err == nil && have.Name() == named.Name()
		}
		return sameReference(name, want)
	})
}
