package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// removalTimeout bounds the engine's removal of an image, which does not end with its caller. The engine's own request
// timeout may be shorter.
const removalTimeout = 2 * time.Minute

// Remove removes the image that spec names by any reference, with all its names. The CRI text: "This call is
// idempotent, and must not return an error if the image has already been removed." So an unknown image is not an
// error, and neither is an image that another call removes meanwhile.
//
// Remove fails with ErrFailedPrecondition if a container, even a stopped one, was made from the image or has mounted
// it. The image then keeps all its names. Remove refuses the sandbox image, too. CRI lets a client remove a pinned
// image on purpose, but the next pod would load the sandbox image again.
//
// The engine keeps an image that other images were built on with Docker's classic builder. Such an image loses its
// names, and the engine no longer lists it. If criadapter ends before the last name is removed, the image keeps some
// names, and the client can repeat the call.
//
// The engine finishes a removal even if ctx ends first: the image is gone, or it has all its tags and digests.
func (s *Service) Remove(ctx context.Context, spec *runtimeapi.ImageSpec) error {
	ref, err := lookupReference(spec)
	if err != nil {
		return err
	}
	// One removal at a time: engines answer concurrent removals of one image with many kinds of errors. A second
	// removal of the same image finds it gone.
	if err := s.removing.take(ctx); err != nil {
		return fmt.Errorf("another image is being removed: %w", err)
	}
	defer s.removing.give()

	present, err := s.lookup(ctx, ref)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.sandbox.matches(present) {
		return fmt.Errorf("image %q is the sandbox image, which every pod needs; it is not removed: %w", ref,
			errdefs.ErrFailedPrecondition)
	}
	if err := s.checkUnused(ctx, present.id()); err != nil {
		return err
	}
	err = s.removeWhole(ctx, present.id())
	s.afterRemoval(ctx, present, err)
	if err == nil {
		s.sweepSignatures(ctx)
	}
	return err
}

// lookup returns the image that a removal names. It asks the engine about a name or a prefix, which may mean another
// image since the last list. A known id needs no inspect: the removal finds out whether the image is still there.
func (s *Service) lookup(ctx context.Context, ref string) (*entry, error) {
	if id := fullID(ref); id != "" {
		return s.ofID(ctx, id)
	}
	return s.images.refresh(ctx, ref)
}

// afterRemoval publishes the result of a removal, even if ctx has ended. It inspects the image if the removal failed,
// or if a pull has published the image meanwhile. If the inspect fails, the removal's own result counts.
func (s *Service) afterRemoval(ctx context.Context, before *entry, removal error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectPatience)
	defer cancel()
	if removal == nil && s.images.dropUnchanged(ctx, before) {
		return
	}
	id := before.id()
	if _, err := s.images.refresh(ctx, id); err == nil || errdefs.IsNotFound(err) {
		return
	}
	if removal == nil {
		s.images.drop(id)
	}
	s.images.changed(id)
}

// checkUnused refuses an image that a container was made from or has mounted. The engine does not know our mounts, and
// ignores stopped containers in a forced removal.
func (s *Service) checkUnused(ctx context.Context, id string) error {
	containers, err := s.engine.ListContainers(ctx, nil)
	if err != nil {
		return err
	}
	// A user's container may have mounted the image by its name.
	now := s.images.now.Load()
	isIt := func(ref string) bool { return now.idOf(ref) == id }
	for _, container := range containers {
		if container.ImageID == id {
			return inUse(id, fmt.Sprintf("container %s", container.ID))
		}
		if slices.ContainsFunc(s.mounted(container), isIt) {
			return inUse(id, fmt.Sprintf("container %s, which has it mounted", container.ID))
		}
	}
	return nil
}

func inUse(id, by string) error {
	return fmt.Errorf("image %s is used by %s; remove the container first: %w", id, by, errdefs.ErrFailedPrecondition)
}

// removeWhole removes an image by its id. The engine requires force for an image with several names, and then removes
// the image of stopped containers, too. So removeWhole checks the containers again just before the forced removal. A
// container that is made between the check and the removal keeps the layers and loses only the image's names.
func (s *Service) removeWhole(ctx context.Context, id string) error {
	if err := s.remove(ctx, id, s.engine.RemoveImage); !errdefs.IsConflict(err) {
		return err
	}
	if err := s.checkUnused(ctx, id); err != nil {
		return err
	}
	err := s.remove(ctx, id, s.engine.ForceRemoveImage)
	if docker.HasChildren(err) {
		return s.untag(context.WithoutCancel(ctx), id) // a removal that ended with ctx would leave some names
	}
	if errdefs.IsConflict(err) {
		return fmt.Errorf("image %s is in use; remove what uses it first: %v: %w", id, err,
			errdefs.ErrFailedPrecondition)
	}
	return err
}

// untag takes all names from an image, except names that a pull has given to another image meanwhile.
func (s *Service) untag(ctx context.Context, id string) error {
	inspect, err := s.engine.InspectImage(ctx, id)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	for _, name := range slices.Concat(inspect.RepoTags, inspect.RepoDigests) {
		now, err := s.engine.InspectImage(ctx, name)
		if errdefs.IsNotFound(err) || err == nil && now.ID != inspect.ID {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.remove(ctx, name, s.engine.RemoveImage); err != nil {
			return err
		}
	}
	return nil
}

// remove removes an image, or a name of it, with a call that does not end with ctx: engines with the containerd image
// store would stop between two names. An image that is gone is not an error.
func (s *Service) remove(ctx context.Context, ref string, remove func(context.Context, string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	if err := remove(ctx, ref); !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}
