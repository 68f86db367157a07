package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountPoints returns the mount points at or below path, in the order of mounting. A missing path has none.
func mountPoints(path string) ([]string, error) {
	real, err := filepath.EvalSymlinks(path) // the kernel lists real paths
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(real))
	if err != nil {
		return nil, err
	}
	points := make([]string, len(mounts))
	for i, mount := range mounts {
		points[i] = mount.Mountpoint
	}
	return points, nil
}

// isMountPoint reports whether path is a mount point. A missing path is not.
func isMountPoint(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

// unmountBelow unmounts everything at and below path, the newest first. If it succeeds, no other file system is left
// below path, so the tree may be removed. It also unmounts mounts in use: a process that uses a mount keeps it.
func unmountBelow(path string) error {
	points, err := mountPoints(path)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "unmount", Path: point, Err: err}
		}
	}
	left, err := mountPoints(path)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is still mounted", strings.Join(left, ", "))
	}
	return err
}
