package dockertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/image"

	"github.com/criadapter/criadapter/docker"
)

// Image is an image of the engine or of the registry. Unset fields get default values, see completed.
type Image struct {
	// ID is "sha256:" and 64 hexadecimal digits.
	ID string
	// Names are the tags, "busybox:1.36" or "registry.example/app" (latest).
	Names []string
	// Digests are the repository digests, "busybox@sha256:…".
	Digests []string
	// Size in bytes.
	Size int64

	Labels          map[string]string
	User            string
	Env             []string
	Volumes         []string
	Entrypoint, cmd []string
	stopSignal      string

	// Auth has the credentials that a pull needs, nil for none.
	Auth *docker.Auth
	// Layers is the number of progress reports of a pull, at least one.
	Layers int

	// tars are the layers of a loaded image, the lowest first.
	tars [][]byte
}

// completed returns a copy with normal names. If ID, Digests or Size are unset, they get default values.
func (i Image) completed(flavor Flavor) *Image {
	i.Names = slices.Clone(i.Names)
	for n, name := range i.Names {
		i.Names[n] = normal(name)
	}
	seed := strings.Join(i.Names, " ")
	i.ID = cmp.Or(i.ID, "sha256:"+hexDigest("image "+seed))
	if len(i.Digests) == 0 && len(i.Names) > 0 {
		repository, _, _ := strings.Cut(i.Names[0], ":")
		digest := "sha256:" + hexDigest("manifest "+seed)
		if flavor == Docker29 {
			digest = i.ID
		}
		i.Digests = []string{repositoryOf(i.Names[0], repository) + "@" + digest}
	}
	i.Size = cmp.Or(i.Size, 1<<20)
	return &i
}

// normal returns a name as the engine lists it: short, with a tag.
func normal(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.FamiliarString(reference.TagNameOnly(named))
}

// repositoryOf returns a name without tag or digest, or the fallback for an invalid name.
func repositoryOf(name, fallback string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return fallback
	}
	return reference.FamiliarName(named)
}

// findImage looks an image up by name, digest, id or the beginning of its id.
// The caller holds the lock.
func (e *Engine) findImage(ref string) (*Image, error) {
	short := strings.TrimPrefix(ref, "sha256:")
	for _, i := range e.images {
		if slices.Contains(i.Names, normal(ref)) || slices.Contains(i.Digests, normal(ref)) || i.ID == ref ||
			(len(short) >= 4 && strings.HasPrefix(i.ID, "sha256:"+short)) {
			return i, nil
		}
	}
	return nil, fmt.Errorf("%w: No such image: %s", errdefs.ErrNotFound, ref)
}

// ListImages implements docker.Images.
func (e *Engine) ListImages(ctx context.Context) ([]image.Summary, error) {
	if err := e.call(ctx, "ListImages", "", func() error { return nil }); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []image.Summary
	for _, i := range e.images {
		out = append(out, image.Summary{
			ID: i.ID, RepoTags: slices.Clone(i.Names), RepoDigests: slices.Clone(i.Digests), Size: i.Size,
			Labels: maps.Clone(i.Labels), Containers: -1, SharedSize: -1, Created: time.Unix(0, 0).Unix(),
		})
	}
	return out, nil
}

// InspectImage implements docker.Images.
func (e *Engine) InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error) {
	leave, err := e.enter(ctx, "InspectImage", ref)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i, err := e.findImage(ref)
	if err := leave(err); err != nil {
		return nil, err
	}
	config := &dockerspec.DockerOCIImageConfig{}
	config.Labels, config.User, config.Env = maps.Clone(i.Labels), i.User, slices.Clone(i.Env)
	config.Entrypoint, config.Cmd, config.StopSignal = slices.Clone(i.Entrypoint), slices.Clone(i.cmd), i.stopSignal
	for _, path := range i.Volumes {
		if config.Volumes == nil {
			config.Volumes = make(map[string]struct{})
		}
		config.Volumes[path] = struct{}{}
	}
	return &image.InspectResponse{
		ID: i.ID, RepoTags: slices.Clone(i.Names), RepoDigests: slices.Clone(i.Digests), Size: i.Size, Config: config,
		Os: e.features.OS, Architecture: e.features.Arch,
	}, nil
}

// TagImage implements docker.Images.
func (e *Engine) TagImage(ctx context.Context, source, target string) error {
	return e.call(ctx, "TagImage", source, func() error { return e.tag(source, target) })
}

func (e *Engine) tag(source, target string) error {
	named, err := reference.ParseNormalizedNamed(target)
	if err != nil {
		return fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	if _, digested := named.(reference.Digested); digested {
		return fmt.Errorf("%w: a digest cannot be given to an image", errdefs.ErrInvalidArgument)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i, err := e.findImage(source)
	if err != nil {
		return err
	}
	e.name(i, normal(target))
	e.imageChanged(i.ID)
	return nil
}

// name adds a name to an image and removes it from all other images. The caller holds the lock.
func (e *Engine) name(i *Image, name string) {
	for _, other := range e.images {
		other.Names = slices.DeleteFunc(other.Names, func(n string) bool { return n == name })
	}
	i.Names = append(i.Names, name)
	digest := repositoryOf(name, name) + "@" + i.ID
	if e.flavor == Docker29 && !slices.Contains(i.Digests, digest) {
		i.Digests = append(i.Digests, digest)
	}
}

// imageChanged publishes an event. The caller holds the lock.
func (e *Engine) imageChanged(id string) {
	if !e.away {
		e.log.add(docker.Event{Kind: docker.ImageChanged, ID: id, Labels: map[string]string{"name": id}, Time: now()})
	}
}
