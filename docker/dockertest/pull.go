package dockertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// PullImage implements docker.Images from Options.Registry.
func (e *Engine) PullImage(ctx context.Context, ref string, opts docker.PullOptions) error {
	return e.call(ctx, "PullImage", ref, func() error { return e.pull(ref, opts) })
}

// Publish adds images to the registry. A name that exists moves to the new image.
func (e *Engine) Publish(images ...Image) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.registry = slices.Concat(images, e.registry)
}

func (e *Engine) pull(ref string, opts docker.PullOptions) error {
	found, err := e.inRegistry(ref, opts.Auth)
	if err != nil {
		return err
	}
	for range max(found.Layers, 1) {
		if opts.Progress != nil {
			opts.Progress(docker.PullMoves)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.store(found, normal(ref))
	return nil
}

// inRegistry finds the image that a reference names in the registry.
func (e *Engine) inRegistry(ref string, auth *docker.Auth) (*Image, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, candidate := range e.registry {
		i := candidate.completed(e.flavor)
		if !slices.Contains(i.Names, normal(ref)) && !slices.Contains(i.Digests, normal(ref)) {
			continue
		}
		if i.Auth != nil && (auth == nil || auth.Username != i.Auth.Username || auth.Password != i.Auth.Password ||
			auth.IdentityToken != i.Auth.IdentityToken || auth.RegistryToken != i.Auth.RegistryToken) {
			return nil, fmt.Errorf("%w: unauthorized: authentication required", errdefs.ErrUnauthenticated)
		}
		return i, nil
	}
	return nil, fmt.Errorf("%w: manifest for %s not found: manifest unknown", errdefs.ErrNotFound, ref)
}

// store adds an image under the name by which it was pulled or loaded. If the image is there already, store adds the
// name and the digests to it. The caller holds the lock.
func (e *Engine) store(i *Image, name string) {
	known := i
	if at := slices.IndexFunc(e.images, func(other *Image) bool { return other.ID == i.ID }); at >= 0 {
		known = e.images[at]
	} else {
		known.Names = nil
		e.images = append(e.images, known)
	}
	for _, digest := range i.Digests {
		if !slices.Contains(known.Digests, digest) {
			known.Digests = append(known.Digests, digest)
		}
	}
	if name != "" && !strings.Contains(name, "@") {
		e.name(known, name)
	}
	e.imageChanged(known.ID)
}
