package docker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// ListImages implements Images.
func (c *Client) ListImages(ctx context.Context) ([]image.Summary, error) {
	var list client.ImageListResult
	err := c.short(ctx, op{verb: "list images"}, func(ctx context.Context, s *session) (err error) {
		list, err = s.api.ImageList(ctx, client.ImageListOptions{})
		return err
	})
	for i := range list.Items {
		dropPlaceholders(&list.Items[i])
	}
	return list.Items, err
}

// dropPlaceholders removes what engines below API 1.43 list as the names of an
// image without names.
func dropPlaceholders(summary *image.Summary) {
	placeholder := func(name string) bool { return name == "<none>:<none>" || name == "<none>@<none>" }
	summary.RepoTags = slices.DeleteFunc(summary.RepoTags, placeholder)
	summary.RepoDigests = slices.DeleteFunc(summary.RepoDigests, placeholder)
}

// InspectImage implements Images.
func (c *Client) InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error) {
	var seen client.ImageInspectResult
	err := c.onImage(ctx, "inspect image", ref, func(ctx context.Context, s *session) (err error) {
		seen, err = s.api.ImageInspect(ctx, ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &seen.InspectResponse, nil
}

// PullImage implements Images. It lasts as long as its context: Progress tells
// the caller whether the transfer is alive.
func (c *Client) PullImage(ctx context.Context, ref string, opts PullOptions) error {
	o := op{verb: "pull image", object: ref}
	if err := checkImage(ref); err != nil {
		return typed(ctx, o, err)
	}
	auth, err := encodeAuth(opts.Auth)
	if err != nil {
		return typed(ctx, o, err)
	}
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
		response, err := s.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return pullError(err)
		}
		return followTransfer(response.JSONMessages(ctx), opts.Progress)
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

// LoadImage implements Images. An error of archive is returned as it is.
func (c *Client) LoadImage(ctx context.Context, archive io.Reader) error {
	source := &errorKeeper{r: archive}
	return c.do(ctx, op{verb: "load image"}, func(ctx context.Context, s *session) error {
		response, err := s.api.ImageLoad(ctx, source, client.ImageLoadWithQuiet(true))
		if cause := source.err(); cause != nil {
			// Moby takes it for a broken connection.
			return fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, cause)
		}
		if err != nil {
			return err
		}
		defer func() { _ = response.Close() }()
		return followTransfer(decodeMessages(response), nil)
	})
}

// errorKeeper remembers why reading failed.
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

// SaveImage implements Images. It lasts as long as its context.
func (c *Client) SaveImage(ctx context.Context, ref string, archive io.Writer) error {
	o := op{verb: "save image", object: ref}
	if err := checkImage(ref); err != nil {
		return typed(ctx, o, err)
	}
	// Engines answer for an image that they do not have with one error or
	// another, some of them within the archive.
	if _, err := c.InspectImage(ctx, ref); err != nil {
		return err
	}
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
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

// RemoveImage implements Images. Parents that nothing else names go with it.
func (c *Client) RemoveImage(ctx context.Context, ref string) error {
	return c.onImage(ctx, "remove image", ref, func(ctx context.Context, s *session) error {
		_, err := s.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		return err
	})
}
