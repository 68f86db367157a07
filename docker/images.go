package docker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/internal/step"
)

// ListImages implements Images.
func (c *Client) ListImages(ctx context.Context) ([]image.Summary, error) {
	var images []image.Summary
	err := c.short(ctx, op{verb: "list images"}, func(ctx context.Context, s *session) error {
		list, err := s.api.ImageList(ctx, client.ImageListOptions{})
		images = joined(list.Items)
		for i := range images {
			img := &images[i]
			img.RepoTags, img.RepoDigests = tidyNames(img.ID, img.RepoTags, img.RepoDigests,
				s.features.ContainerdImageStore)
		}
		return err
	})
	return images, err
}

// InspectImage implements Images.
func (c *Client) InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error) {
	var inspect image.InspectResponse
	err := c.onImage(ctx, "inspect image", ref, func(ctx context.Context, s *session) error {
		result, err := s.api.ImageInspect(ctx, ref)
		inspect = result.InspectResponse
		inspect.RepoTags, inspect.RepoDigests = tidyNames(
			inspect.ID, inspect.RepoTags, inspect.RepoDigests, s.features.ContainerdImageStore)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &inspect, nil
}

// PullImage implements Images. It has no timeout: opts.Progress shows the caller whether the transfer is alive.
func (c *Client) PullImage(ctx context.Context, ref string, opts PullOptions) error {
	defer step.At("engine: pull image")()
	o := op{verb: "pull image", kind: anImage, object: ref}
	auth, err := encodeAuth(opts.Auth)
	if err != nil {
		return typed(ctx, o, err)
	}
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
		steps := newTransferred(s.features)
		if opts.Progress != nil && steps.phase() == PullQueued {
			opts.Progress(PullQueued)
		}
		response, err := s.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return pullError(err)
		}
		return followTransfer(response.JSONMessages(ctx), steps, opts.Progress)
	})
}

// encodeAuth returns the value of the X-Registry-Auth header.
func encodeAuth(auth *Auth) (string, error) {
	if auth == nil {
		return "", nil
	}
	return authconfig.Encode(registry.AuthConfig{
		Username:      auth.Username,
		Password:      auth.Password,
		IdentityToken: auth.IdentityToken,
		RegistryToken: auth.RegistryToken,
		ServerAddress: auth.ServerAddress,
	})
}

// LoadImage implements Images. If reading archive fails, the error wraps the read error and ErrInvalidArgument.
func (c *Client) LoadImage(ctx context.Context, archive io.Reader) error {
	defer step.At("engine: load image")()
	source := &errorKeeper{r: archive}
	return c.do(ctx, op{verb: "load image"}, func(ctx context.Context, s *session) error {
		response, err := s.api.ImageLoad(ctx, source, client.ImageLoadWithQuiet(true))
		if cause := source.err(); cause != nil {
			// The error of moby's client would report a broken connection instead.
			return fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, cause)
		}
		if err != nil {
			return err
		}
		defer func() { _ = response.Close() }()
		return followTransfer(decodeMessages(response), newTransferred(Features{}), nil)
	})
}

// errorKeeper keeps the error of a failed read.
type errorKeeper struct {
	r      io.Reader
	failed atomic.Pointer[error]
}

func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.failed.Store(&err)
	}
	return n, err
}

func (k *errorKeeper) err() error {
	if err := k.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// SaveImage implements Images. It has no timeout.
func (c *Client) SaveImage(ctx context.Context, ref string, archive io.Writer) error {
	defer step.At("engine: save image")()
	// Engines report a missing image in different ways, some only inside the archive.
	if _, err := c.InspectImage(ctx, ref); err != nil {
		return err
	}
	return c.do(ctx, op{verb: "save image", kind: anImage, object: ref}, func(ctx context.Context, s *session) error {
		saved, err := s.api.ImageSave(ctx, []string{ref})
		if err != nil {
			return err
		}
		defer func() { _ = saved.Close() }()
		_, err = io.Copy(archive, saved)
		return err
	})
}

// TagImage implements Images.
func (c *Client) TagImage(ctx context.Context, source, target string) error {
	if err := checkTag(target); err != nil {
		return typed(ctx, op{verb: "tag image", object: source}, err)
	}
	return c.onImage(ctx, "tag image", source, func(ctx context.Context, s *session) error {
		_, err := s.api.ImageTag(ctx, client.ImageTagOptions{Source: source, Target: target})
		return err
	})
}

// RemoveImage implements Images. The engine also removes untagged parents that are no longer used.
func (c *Client) RemoveImage(ctx context.Context, ref string) error {
	return c.removeImage(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
}

// ForceRemoveImage implements Images. The engine also removes untagged parents that are no longer used.
func (c *Client) ForceRemoveImage(ctx context.Context, id string) error {
	if _, err := digest.Parse(id); err != nil {
		// If id were a name, the engine would remove only that name.
		err = fmt.Errorf("%w: image id %q: %w", errdefs.ErrInvalidArgument, id, err)
		return typed(ctx, op{verb: "remove image", object: id}, err)
	}
	return c.removeImage(ctx, id, client.ImageRemoveOptions{PruneChildren: true, Force: true})
}

// HasChildren reports whether the engine refuses to remove an image, even by force, because other images were built on
// it with Docker's classic builder. Engines with graph drivers refuse it with the same text from 20.10 to 29. With the
// containerd image store, engines remove the image.
func HasChildren(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "dependent child images")
}

func (c *Client) removeImage(ctx context.Context, ref string, opts client.ImageRemoveOptions) error {
	defer step.At("engine: remove image")()
	return c.onImage(ctx, "remove image", ref, func(ctx context.Context, s *session) error {
		_, err := s.api.ImageRemove(ctx, ref, opts)
		return err
	})
}
