package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// restoreTimeout bounds the return of an image's names after a removal failed
// half way.
const restoreTimeout = 30 * time.Second

// Remove removes the image that spec names, whatever the reference, with all
// its names. The CRI text: "This call is idempotent, and must not return an
// error if the image has already been removed"; so an unknown image is no
// error, nor is one that another call removes at the same time.
//
// An image that a container was made from or has mounted, even a stopped one, is
// refused with ErrFailedPrecondition and keeps all its names. So is the sandbox image: the
// CRI text lets a client remove a pinned image on purpose, but here the next
// pod would need it back at once, and a success that removed nothing would be
// a lie.
func (s *Service) Remove(ctx context.Context, spec *runtimeapi.ImageSpec) error {
	ref, err := lookupReference(spec)
	if err != nil {
		return err
	}
	// One removal at a time: engines answer two removals of one image with
	// errors of many kinds, whereas the second in a row finds it gone.
	if err := s.removing.take(ctx); err != nil {
		return fmt.Errorf("another image is being removed: %w", err)
	}
	defer s.removing.give()

	inspect, err := s.engine.InspectImage(ctx, ref)
	if errdefs.IsNotFound(err) {
		s.facts.forget(ref)
		return nil
	}
	if err != nil {
		return err
	}
	if s.sandbox.is(s.fromInspect(inspect)) {
		return fmt.Errorf("image %q is the sandbox image, which every pod needs; it is not removed: %w", ref, errdefs.ErrFailedPrecondition)
	}
	if err := s.checkUnused(ctx, inspect.ID); err != nil {
		return err
	}
	s.facts.forget(inspect.ID)
	return s.removeNames(ctx, inspect)
}

// checkUnused refuses an image that containers were made from or have mounted. The engine would
// take away all names but the last before it refuses.
func (s *Service) checkUnused(ctx context.Context, id string) error {
	containers, err := s.engine.ListContainers(ctx, nil)
	if err != nil {
		return err
	}
	for _, container := range containers {
		if container.ImageID == id {
			return inUse(id, fmt.Sprintf("container %s", container.ID))
		}
		if slices.Contains(s.mounted(container), id) {
			return inUse(id, fmt.Sprintf("container %s, which has it mounted", container.ID))
		}
	}
	return nil
}

func inUse(id, by string) error {
	return fmt.Errorf("image %s is used by %s; remove that first: %w", id, by, errdefs.ErrFailedPrecondition)
}

// removeNames removes tags, then digests, then what is left of the image. A
// container that was made meanwhile stops it; the tags are then given back.
func (s *Service) removeNames(ctx context.Context, inspect *image.InspectResponse) (err error) {
	var removed []string
	defer func() {
		if err != nil {
			s.restoreTags(ctx, inspect.ID, removed)
		}
	}()
	tags, digests := names(inspect.RepoTags), names(inspect.RepoDigests)
	for _, tag := range tags {
		if err := s.removeOne(ctx, inspect.ID, tag); err != nil {
			return err
		}
		removed = append(removed, tag)
	}
	for _, name := range append(digests, inspect.ID) {
		if err := s.removeOne(ctx, inspect.ID, name); err != nil {
			return err
		}
	}
	return nil
}

// removeOne removes one name; one that is gone already is as good as removed.
func (s *Service) removeOne(ctx context.Context, id, name string) error {
	err := s.engine.RemoveImage(ctx, name)
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err):
		return inUse(id, fmt.Sprintf("a container (%v)", err))
	default:
		return err
	}
}

// restoreTags gives an image its tags back.
func (s *Service) restoreTags(ctx context.Context, id string, tags []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	for _, tag := range tags {
		if err := s.engine.TagImage(ctx, id, tag); err != nil {
			logrus.WithError(err).WithFields(logrus.Fields{"image": id, "tag": tag}).
				Warn("the image's removal failed half way and its tag could not be restored")
		}
	}
}
