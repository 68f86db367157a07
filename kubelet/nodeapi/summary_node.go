package nodeapi

import (
	"cmp"
	"context"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// imagesTimeout bounds ImageFsInfo, so that the call does not delay the rest of a summary. Some runtimes count files
// during the call.
const imagesTimeout = 10 * time.Second

// runtimeStats gets the runtime's disk usage. Missing values are left out.
func (s *reads) runtimeStats(ctx context.Context) *statsapi.RuntimeStats {
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()
	info, err := s.Stats.ImageFsInfo(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Debug("runtime has no file system stats")
		return nil
	}
	return &statsapi.RuntimeStats{ImageFs: usedOn(ctx, info.GetImageFilesystems()),
		ContainerFs: usedOn(ctx, info.GetContainerFilesystems())}
}

// usedOn returns the first file system with the runtime's use of it.
func usedOn(ctx context.Context, filesystems []*runtimeapi.FilesystemUsage) *statsapi.FsStats {
	if len(filesystems) == 0 {
		return nil
	}
	usage := filesystems[0]
	stats := cmp.Or(fsStats(ctx, usage.GetFsId().GetMountpoint(), at(usage.GetTimestamp()).Time),
		&statsapi.FsStats{Time: at(usage.GetTimestamp())})
	stats.UsedBytes = value(usage.GetUsedBytes())
	stats.InodesUsed = value(usage.GetInodesUsed())
	return stats
}

// fsStats returns the stats of the file system at path, or nil.
func fsStats(ctx context.Context, path string, now time.Time) *statsapi.FsStats {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		log.G(ctx).WithError(err).WithField("path", path).Debug("cannot read file system stats")
		return nil
	}
	block := uint64(stat.Frsize)
	return &statsapi.FsStats{
		Time: metav1.NewTime(now), AvailableBytes: new(stat.Bavail * block), CapacityBytes: new(stat.Blocks * block),
		UsedBytes: new((stat.Blocks - stat.Bfree) * block),
		Inodes:    new(stat.Files), InodesFree: new(stat.Ffree), InodesUsed: new(stat.Files - stat.Ffree),
	}
}
