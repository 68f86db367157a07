package dockertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
)

// RemoveImage implements docker.Images.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	return e.onImage(ctx, "RemoveImage", ref, func(i *Image) error { return e.removeImage(i, normal(ref)) })
}

// ForceRemoveImage implements docker.Images.
func (e *Engine) ForceRemoveImage(ctx context.Context, id string) error {
	return e.onImage(ctx, "ForceRemoveImage", id, func(i *Image) error {
		for _, c := range e.containers {
			if c.image == i && c.running() {
				return fmt.Errorf("%w: running container %s uses the image", errdefs.ErrConflict, c.id)
			}
		}
		e.dropImage(i)
		return nil
	})
}

// removeImage removes a name of an image, or the image by its id. The caller holds the lock.
func (e *Engine) removeImage(i *Image, name string) error {
	byName := slices.Contains(i.Names, name) || slices.Contains(i.Digests, name)
	if byName && len(i.Names) > 1 {
		e.untag(i, name)
		return nil
	}
	if !byName && severalReferences(i) {
		return fmt.Errorf("%w: image is referenced in multiple repositories", errdefs.ErrConflict)
	}
	if user := e.userOf(i); user != nil {
		return fmt.Errorf("%w: container %s uses the image", errdefs.ErrConflict, user.id)
	}
	e.dropImage(i)
	return nil
}

// onImage runs act as an engine call about an image, under the lock.
func (e *Engine) onImage(ctx context.Context, call, ref string, act func(*Image) error) error {
	return e.call(ctx, call, ref, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		i, err := e.findImage(ref)
		if err != nil {
			return err
		}
		return act(i)
	})
}

// dropImage removes an image with all its names. The caller holds the lock.
func (e *Engine) dropImage(i *Image) {
	e.images = slices.DeleteFunc(e.images, func(other *Image) bool { return other == i })
	e.imageChanged(i.ID)
}

// untag takes a name from an image. With the last tag of a repository it also takes the repository's digests. The
// caller holds the lock.
func (e *Engine) untag(i *Image, name string) {
	is := func(n string) bool { return n == name }
	i.Names, i.Digests = slices.DeleteFunc(i.Names, is), slices.DeleteFunc(i.Digests, is)
	repository := repositoryOf(name, name)
	inIt := func(n string) bool { return repositoryOf(n, n) == repository }
	if !slices.ContainsFunc(i.Names, inIt) {
		i.Digests = slices.DeleteFunc(i.Digests, inIt)
	}
	e.imageChanged(i.ID)
}

// severalReferences reports whether an image has more than one tag, or digests of another repository than its tag's.
func severalReferences(i *Image) bool {
	references := slices.Concat(i.Names, i.Digests)
	return len(i.Names) > 1 || slices.ContainsFunc(references, func(name string) bool {
		return repositoryOf(name, name) != repositoryOf(references[0], "")
	})
}

// userOf returns a container that was created from the image, nil for none.
func (e *Engine) userOf(i *Image) *container {
	for _, c := range e.containers {
		if c.image == i {
			return c
		}
	}
	return nil
}
