package server

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imagesTimeout bounds the question for what images and layers take: the rest of a summary does not wait longer for it.
const imagesTimeout = 10 * time.Second

// runtimeStats asks the runtime for what it keeps on disk. What cannot be had is left out.
func (s *reads) runtimeStats(ctx context.Context) *RuntimeStats {
	ctx, cancel := context.WithTimeout(ctx, imagesTimeout)
	defer cancel()
	info, err := s.Stats.ImageFsInfo(ctx)
	if err != nil {
		logrus.WithError(err).Debug("The runtime does not tell about its file systems")
		return nil
	}
	return &RuntimeStats{ImageFs: usedOn(info.GetImageFilesystems()), ContainerFs: usedOn(info.GetContainerFilesystems())}
}

// usedOn is the first file system with what the runtime uses of it.
func usedOn(filesystems []*runtimeapi.FilesystemUsage) *FsStats {
	if len(filesystems) == 0 {
		return nil
	}
	usage := filesystems[0]
	stats := fsStats(usage.GetFsId().GetMountpoint(), at(usage.GetTimestamp()).Time)
	if stats == nil {
		stats = &FsStats{Time: at(usage.GetTimestamp())}
	}
	stats.UsedBytes = value(usage.GetUsedBytes())
	stats.InodesUsed = value(usage.GetInodesUsed())
	return stats
}

// fsStats is the file system at path, nil if there is none.
func fsStats(path string, now time.Time) *FsStats {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		logrus.WithError(err).WithField("path", path).Debug("There are no figures of a file system")
		return nil
	}
	block := uint64(stat.Bsize)
	available, capacity, used := stat.Bavail*block, stat.Blocks*block, (stat.Blocks-stat.Bfree)*block
	inodes, free := stat.Files, stat.Ffree
	inodesUsed := inodes - free
	return &FsStats{
		Time: metav1.NewTime(now), AvailableBytes: &available, CapacityBytes: &capacity, UsedBytes: &used,
		Inodes: &inodes, InodesFree: &free, InodesUsed: &inodesUsed,
	}
}
