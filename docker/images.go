package docker

import (
	"context"
	"io"

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
	return list.Items, err
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
	o := op{"pull image", ref}
	if err := checkImage(ref); err != nil {
		return typed(ctx, o, 0, err)
	}
	auth, err := encodeAuth(opts.Auth)
	if err != nil {
		return typed(ctx, o, 0, err)
	}
	return c.long(ctx, o, func(ctx context.Context, s *session) error {
		response, err := s.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return pullRefusal(err)
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

// LoadImage implements Images.
func (c *Client) LoadImage(ctx context.Context, archive io.Reader) error {
	return c.long(ctx, op{verb: "load image"}, func(ctx context.Context, s *session) error {
		response, err := s.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
		if err != nil {
			return err
		}
		defer func() { _ = response.Close() }()
		return followTransfer(decodeMessages(response), nil)
	})
}

// TagImage implements Images.
func (c *Client) TagImage(ctx context.Context, source, target string) error {
	if err := checkImage(target); err != nil {
		return typed(ctx, op{"tag image", source}, 0, err)
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

// onImage is short for a request about one image.
func (c *Client) onImage(ctx context.Context, verb, ref string, do func(context.Context, *session) error) error {
	o := op{verb, ref}
	if err := checkImage(ref); err != nil {
		return typed(ctx, o, 0, err)
	}
	return c.short(ctx, o, do)
}
