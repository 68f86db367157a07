package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/moby/moby/api/types/image"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/registry"
)

// Engine is an engine whose images include artifacts. It pulls artifacts into the store if the engine refuses them. A
// tag that both the engine and the store have names the store's artifact, until this Engine pulls an image by that tag.
type Engine struct {
	docker.Engine
	Store *Store
}

// PullImage implements docker.Images.
func (e Engine) PullImage(ctx context.Context, ref string, opts docker.PullOptions) error {
	err := e.Engine.PullImage(ctx, ref, opts)
	if err == nil {
		return e.Store.untag(ref)
	}
	if !errors.Is(err, docker.ErrMediaType) {
		return err
	}
	if kept := e.pullArtifact(ctx, ref, opts); errors.Is(kept, ErrNotArtifact) {
		return err
	} else if kept != nil {
		return fmt.Errorf("pull artifact %s: %w", ref, typed(ctx, kept))
	}
	return nil
}

func (e Engine) pullArtifact(ctx context.Context, ref string, opts docker.PullOptions) error {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return err
	}
	features, err := e.Features(ctx)
	if err != nil {
		return err
	}
	p := pull{ref: named, auth: registry.Credentials(opts.Auth), arch: features.Arch, progress: func() {}}
	if opts.Progress != nil {
		opts.Progress(docker.PullMoves)
		p.progress = func() { opts.Progress(docker.PullMoves) }
	}
	return e.Store.pull(ctx, p)
}

// typed gives a registry's error one of the error types that docker.Images documents.
func typed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if unreachable(err) {
		return fmt.Errorf("%w: %w", docker.ErrRegistryUnavailable, err)
	}
	var failed *transport.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", errdefs.ErrNotFound, err)
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", errdefs.ErrUnauthenticated, err)
	case http.StatusForbidden:
		return fmt.Errorf("%w: %w", errdefs.ErrPermissionDenied, err)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%w: %w", errdefs.ErrResourceExhausted, err)
	case http.StatusRequestTimeout:
		return fmt.Errorf("%w: %w", docker.ErrRegistryUnavailable, err)
	}
	if failed.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%w: %w", docker.ErrRegistryUnavailable, err)
	}
	return fmt.Errorf("%w: %w", errdefs.ErrUnknown, err)
}

// unreachable reports whether a name was not found in DNS, or a connection failed, ended early or was silent.
func unreachable(err error) bool {
	var (
		lookup *net.DNSError
		call   *os.SyscallError
		silent net.Error
	)
	return errors.As(err, &lookup) || errors.As(err, &call) || errors.As(err, &silent) && silent.Timeout() ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || http2Ended(err)
}

// http2Ended reports whether an HTTP/2 connection or its stream ended early. net/http exports no type for most of these
// errors, so their texts decide.
func http2Ended(err error) bool {
	return slices.ContainsFunc([]string{
		"http2: client connection lost", "http2: server sent GOAWAY", "http2: Transport received",
		"stream error: stream ID",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// TagImage implements docker.Images.
func (e Engine) TagImage(ctx context.Context, source, target string) error {
	if a := e.Store.find(source); a != nil {
		return e.Store.tag(a.id, target)
	}
	if err := e.Engine.TagImage(ctx, source, target); err != nil {
		return err
	}
	return e.Store.untag(target) // an artifact may have had the tag
}

// InspectImage implements docker.Images.
func (e Engine) InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error) {
	if a := e.Store.find(ref); a != nil {
		return inspected(a), nil
	}
	inspect, err := e.Engine.InspectImage(ctx, ref)
	if err == nil {
		inspect.RepoTags = e.Store.engineTags(inspect.RepoTags)
		return inspect, nil
	}
	if a := e.Store.ofPrefix(ref); a != nil && errdefs.IsNotFound(err) {
		return inspected(a), nil
	}
	return nil, err
}

// inspected returns an artifact as an engine with the containerd image store shows it: without an OS and layers.
func inspected(a *kept) *image.InspectResponse {
	return &image.InspectResponse{
		ID: a.id.String(), RepoTags: a.Tags, RepoDigests: a.Digests, Size: a.size,
		Created: a.created.UTC().Format(time.RFC3339Nano),
	}
}

// ListImages implements docker.Images.
func (e Engine) ListImages(ctx context.Context) ([]image.Summary, error) {
	images, err := e.Engine.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	for i := range images {
		images[i].RepoTags = e.Store.engineTags(images[i].RepoTags)
	}
	for _, a := range e.Store.list() {
		images = append(images, image.Summary{
			ID: a.id.String(), RepoTags: a.Tags, RepoDigests: a.Digests, Size: a.size, Created: a.created.Unix(),
		})
	}
	return images, nil
}

// RemoveImage implements docker.Images. It removes an artifact of the store with all its names.
func (e Engine) RemoveImage(ctx context.Context, ref string) error {
	if a := e.Store.find(ref); a != nil {
		return e.Store.remove(a.id)
	}
	return e.Engine.RemoveImage(ctx, ref)
}
