package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// FsInfo returns the path and usage of the filesystem of the images and of the filesystem of the containers' own
// layers. Engines keep both in one place.
//
// The bytes and inodes are measured from the layers on disk, with Options.Kept. A layer that several images share
// counts once, unlike in the sum of the images' sizes. The engine's own call for disk usage takes minutes. Measurements
// run in the background, at most every half minute, and have no time limit.
//
// Before the first measurement, the answer is the sum of the images' sizes, without inodes and without the containers'
// filesystem. With storage drivers that do not keep layers in directories (btrfs, zfs), the answer is always this sum
// plus the measured usage of Options.Kept. While the engine is away, the same directories are measured as before.
func (s *Service) FsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(place.mountpoint); err != nil {
		return nil, fmt.Errorf(
			"the engine's data directory is not visible here, mount it here under the same path: %w: %w", err,
			errdefs.ErrFailedPrecondition)
	}
	measured, ok := s.usage.get(ctx, place)
	if ok && !place.summed {
		return fsInfo(place.mountpoint, measured), nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	estimate, err := s.estimateUsage(ctx, ok && place.keptArtifacts)
	if err != nil {
		return nil, err
	}
	estimate.images.bytes += measured.images.bytes // the usage of Options.Kept, or 0
	info := fsInfo(place.mountpoint, estimate)
	info.ContainerFilesystems = nil
	return info, nil
}

// place finds the engine's layers. While the engine is away, it returns the last known place.
func (s *Service) place(ctx context.Context) (storage, error) {
	features, err := s.engine.Features(ctx)
	if err == nil {
		place := storageOf(features, s.containerdRoots(features))
		place.summed, place.keptArtifacts = len(place.layers) == 0, !features.ContainerdImageStore
		place.layers = append(place.layers, s.kept...)
		s.lastPlace.Store(&place)
		return place, nil
	}
	if last := s.lastPlace.Load(); last != nil && errdefs.IsUnavailable(err) {
		return *last, nil
	}
	return storage{}, err
}

// estimateUsage adds up the sizes of the images, an estimate of their usage. It can leave out artifacts.
func (s *Service) estimateUsage(ctx context.Context, withoutArtifacts bool) (usage, error) {
	images, err := s.images.snapshot(ctx)
	if err != nil {
		return usage{}, err
	}
	estimate := usage{taken: time.Now()}
	for _, image := range images.byID {
		if image.artifact && withoutArtifacts {
			continue
		}
		estimate.images.bytes += image.img.GetSize()
	}
	return estimate, nil
}

func fsInfo(mountpoint string, u usage) *runtimeapi.ImageFsInfoResponse {
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{filesystemUsage(mountpoint, u.taken, u.images)},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{filesystemUsage(mountpoint, u.taken, u.containers)},
	}
}

func filesystemUsage(mountpoint string, taken time.Time, f footprint) *runtimeapi.FilesystemUsage {
	usage := &runtimeapi.FilesystemUsage{
		Timestamp: taken.UnixNano(),
		FsId:      &runtimeapi.FilesystemIdentifier{Mountpoint: mountpoint},
		UsedBytes: &runtimeapi.UInt64Value{Value: f.bytes},
	}
	if f.inodes > 0 {
		usage.InodesUsed = &runtimeapi.UInt64Value{Value: f.inodes}
	}
	return usage
}

// storage is the place of an engine's layers.
type storage struct {
	// mountpoint is the directory that identifies the filesystem.
	mountpoint string
	// layers are the directories that contain the layers and Options.Kept.
	layers []string
	// summed says that the images' sizes count, because the driver does not keep layers in directories.
	summed bool
	// keptArtifacts says that artifacts are in Options.Kept, because the engine keeps none.
	keptArtifacts bool
	// mounts is the directory of the engine's records of container layers, empty if it has none. They distinguish
	// container layers from image layers.
	mounts string
}

// storageOf finds the layers of an engine by its storage driver. roots are the possible data directories of its
// containerd, the likeliest first.
func storageOf(features docker.Features, roots []string) storage {
	if features.ContainerdImageStore {
		return containerdStorage(features, roots)
	}
	place := storage{mountpoint: features.Root}
	switch features.StorageDriver {
	case "overlay2", "overlay", "fuse-overlayfs", "aufs", "vfs":
		place.layers = []string{filepath.Join(features.Root, features.StorageDriver)}
		place.mounts = filepath.Join(features.Root, "image", features.StorageDriver, "layerdb", "mounts")
	}
	return place
}

// containerdStorage finds the snapshotter's directory.
func containerdStorage(features docker.Features, roots []string) storage {
	for _, root := range roots {
		snapshots := filepath.Join(root, snapshotterPrefix+features.StorageDriver)
		if _, err := os.Stat(snapshots); err != nil || strings.Contains(features.StorageDriver, "/") {
			continue
		}
		place := storage{mountpoint: snapshots}
		switch features.StorageDriver {
		case "overlayfs", "fuse-overlayfs", "native":
			place.layers = []string{snapshots, filepath.Join(root, "io.containerd.content.v1.content")}
		}
		return place
	}
	return storage{mountpoint: features.Root}
}
