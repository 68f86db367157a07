package container

import (
	"cmp"
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// namedImages returns the image volumes, keyed by the index of the mount, with the images' names instead of their ids.
// So a configuration can be validated before its images are looked up.
func namedImages(config *runtimeapi.ContainerConfig) map[int]translate.ImageSource {
	sources := make(map[int]translate.ImageSource)
	for _, volume := range translate.ImageVolumes(config) {
		sources[volume.Index] = translate.ImageSource{ID: volume.Image}
	}
	return sources
}

// addImageVolumes finds the images that a container mounts and adds the mounts to d. After an error nothing is held.
//
// It fails with ErrNotFound for a missing image. It fails with ErrImageVolumeMountFailed of the CRI API when the image
// cannot be mounted; the kubelet shows that as the container's waiting reason.
func (s *Service) addImageVolumes(ctx context.Context, d *draft, in translate.ContainerInput) (err error) {
	volumes := translate.ImageVolumes(in.Config)
	if len(volumes) == 0 {
		return nil
	}
	var releases []func()
	d.release = func() {
		for _, release := range releases {
			release()
		}
	}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	sources, times, err := s.imageIDs(ctx, in.Config, volumes)
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		source := sources[volume.Index]
		artifact, err := s.opts.Images.IsArtifact(ctx, source.ID)
		if err != nil {
			return err
		}
		if !artifact && engineMounts(in.Features, volume, times[source.ID]) {
			continue
		}
		path, release, err := s.mountImage(ctx, volume, source.ID)
		if err != nil {
			return err
		}
		releases = append(releases, release)
		sources[volume.Index] = translate.ImageSource{ID: source.ID, Path: path}
	}
	in.ImageSources = sources
	if d.spec, err = translate.Container(in); err != nil {
		return err
	}
	if d.request, err = s.withImageRefs(ctx, in.Config, volumes, sources); err != nil {
		return err
	}
	d.config, err = marshalConfig(d.request)
	return err
}

// withImageRefs returns a copy of the configuration for the checkpoint and the status. It sets the ImageSpec.image_ref
// of each mounted image to the image's name by digest, or to its id if it has no digest.
func (s *Service) withImageRefs(
	ctx context.Context, config *runtimeapi.ContainerConfig, volumes []translate.ImageVolume,
	sources map[int]translate.ImageSource,
) (*runtimeapi.ContainerConfig, error) {
	filled := proto.CloneOf(config)
	for _, volume := range volumes {
		image := filled.GetMounts()[volume.Index].GetImage()
		id := sources[volume.Index].ID
		digested, err := s.opts.Images.Digested(ctx, id, imageName(image))
		if err != nil {
			return nil, fmt.Errorf("%s.image.image: %w", volume.Field, err)
		}
		image.ImageRef = cmp.Or(digested, id)
	}
	return filled, nil
}

// engineMounts reports whether the engine is to mount the image of a volume. times is how often the container mounts
// that image. The engine does not get mounts of a part of an image: it would report a missing part only at the start,
// and a failed start ends the container. Docker 28 refuses to mount one image at several places.
func engineMounts(features docker.Features, volume translate.ImageVolume, times int) bool {
	return features.Supports(translate.APIImageMount) && volume.SubPath == "" && times == 1
}

func (s *Service) mountImage(
	ctx context.Context, volume translate.ImageVolume, id string,
) (path string, release func(), err error) {
	if s.opts.ImageVolumes == nil {
		return "", nil, fmt.Errorf(
			"%s.image: this node can mount an image only as a whole, at one place, with Docker Engine 28 or newer: %w",
			volume.Field, errdefs.ErrNotImplemented)
	}
	path, release, err = s.opts.ImageVolumes.Mount(ctx, id, volume.SubPath)
	if err != nil {
		return "", nil, mountFailed(ctx, volume, err)
	}
	return path, release, nil
}

// imageIDs returns the ids of the images, keyed by the index of the mount, and how often each id occurs. It fails for
// an image that the node's policy refuses.
func (s *Service) imageIDs(
	ctx context.Context, config *runtimeapi.ContainerConfig, volumes []translate.ImageVolume,
) (sources map[int]translate.ImageSource, times map[string]int, err error) {
	sources, times = make(map[int]translate.ImageSource), make(map[string]int)
	for _, volume := range volumes {
		id, err := s.opts.Images.Resolve(ctx, volume.Image)
		switch {
		case errdefs.IsNotFound(err):
			return nil, nil, fmt.Errorf("%s.image.image: pull %q before mounting it: %w", volume.Field, volume.Image,
				err)
		case errdefs.IsInvalidArgument(err):
			return nil, nil, fmt.Errorf("%s.%w", volume.Field, err)
		case err != nil:
			return nil, nil, err
		}
		name := imageName(config.GetMounts()[volume.Index].GetImage())
		if err := s.opts.Images.Allow(ctx, id, name); err != nil {
			return nil, nil, fmt.Errorf("%s.image.image: %w", volume.Field, err)
		}
		sources[volume.Index] = translate.ImageSource{ID: id}
		times[id]++
	}
	return sources, times, nil
}

// mountFailed prefixes the reason with the sentinel that the kubelet looks for. It adds no sentinel if the same request
// may succeed later.
func mountFailed(ctx context.Context, volume translate.ImageVolume, err error) error {
	field := volume.Field + ".image"
	if errdefs.IsNotFound(err) && volume.SubPath != "" {
		field = volume.Field + ".image_sub_path"
	}
	if ctx.Err() != nil || errdefs.IsUnavailable(err) {
		return fmt.Errorf("%s: %w", field, err)
	}
	return fmt.Errorf("%w: %s: %w", crierrors.ErrImageVolumeMountFailed, field, err)
}

// tidyImageVolumes schedules the removal of unused image files if a removed container had mounted an image.
func (s *Service) tidyImageVolumes(config *runtimeapi.ContainerConfig) {
	if s.opts.ImageVolumes != nil && len(translate.ImageVolumes(config)) > 0 {
		s.opts.ImageVolumes.Tidy()
	}
}
