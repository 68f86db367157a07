package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/criadapter/criadapter/container/dump"
)

// declaredVolumes lists the volumes that the engine made because a container's image declares them. CRI's mounts are
// not volumes of the engine.
func (s *Service) declaredVolumes(ctx context.Context, id string) ([]container.MountPoint, error) {
	inspect, err := s.opts.Engine.InspectContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	var volumes []container.MountPoint
	for _, point := range inspect.Mounts {
		if point.Type == mount.TypeVolume {
			volumes = append(volumes, point)
		}
	}
	return volumes, nil
}

// saveVolumes archives the files in a container's volumes, which the engine does not list among the changes. mounts are
// the container's mount points. saveVolumes leaves out mounts within a volume.
func (s *Service) saveVolumes(ctx context.Context, id, dir string, mounts []string) error {
	volumes, err := s.declaredVolumes(ctx, id)
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		if err := saveVolume(ctx, volume, filepath.Join(dir, dump.Volume(volume.Destination)), mounts); err != nil {
			return fmt.Errorf("reading the volume %s of container %s: %w", volume.Destination, id, err)
		}
	}
	return nil
}

func saveVolume(ctx context.Context, volume container.MountPoint, archive string, mounts []string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(volume.Source)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	return dump.SaveAll(ctx, root, archive, func(name string) bool {
		return name != "." && slices.Contains(mounts, path.Join(volume.Destination, name))
	})
}

// fillVolumes gives the volumes of a new container the files of a checkpoint, in place of the image's. Checkpoints of
// criadapter before 1.0.0 have no volumes.
func (s *Service) fillVolumes(ctx context.Context, id, dir string) error {
	volumes, err := s.declaredVolumes(ctx, id)
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		archive := filepath.Join(dir, dump.Volume(volume.Destination))
		if _, err := os.Stat(archive); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := clearDir(volume.Source)
		if err == nil {
			err = s.copyFiles(ctx, id, volume.Destination, archive)
		}
		if err == nil { // the engine leaves the root of the volume as it was
			err = dump.CopyOwner(archive, volume.Source)
		}
		if err != nil {
			return fmt.Errorf("filling the volume %s: %w", volume.Destination, err)
		}
	}
	return nil
}

// clearDir removes all files in a directory, if the directory exists.
func clearDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}
