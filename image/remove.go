package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removalTimeout bounds the engine's operation that removes an image, which
// does not end with its caller. The engine's own request timeout may be shorter.
const removalTimeout = 2 * time.Minute

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
//
// A removal is one operation of the engine, which goes to its end even if ctx
// does not last as long: the image is gone, or it has all its tags and digests.
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
	return s.removeWhole(ctx, inspect.ID)
}

// checkUnused refuses an image that containers were made from or have mounted. The engine knows
// nothing of our mounts, and does not count stopped containers in a forced removal.
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

// removeWhole removes an image by its id. The engine refuses that for an image
// with several names unless it is forced, which also takes the image of stopped
// containers: whether there are any is asked again just before, so that only a
// container made between these two calls of the engine loses its image's names,
// and nothing else: its layers stay with it.
func (s *Service) removeWhole(ctx context.Context, id string) error {
	if err := s.removeByID(ctx, id, s.engine.RemoveImage); !errdefs.IsConflict(err) {
		return err
	}
	if err := s.checkUnused(ctx, id); err != nil {
		return err
	}
	err := s.removeByID(ctx, id, s.engine.ForceRemoveImage)
	if errdefs.IsConflict(err) {
		return fmt.Errorf("image %s is in use; remove what uses it first: %v: %w", id, err, errdefs.ErrFailedPrecondition)
	}
	return err
}

// removeByID removes an image with a call of the engine that is not cancelled
// with ctx: engines with the containerd image store would stop between two names.
// An image that is gone already is as good as removed.
func (s *Service) removeByID(ctx context.Context, id string, remove func(context.Context, string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	if err := remove(ctx, id); !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}
