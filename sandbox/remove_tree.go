package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// removeTree removes a directory and its content. It unmounts each mount there first, so that the mount keeps its
// files. A missing directory is success.
func removeTree(dir string) error {
	// An empty directory cannot hold a mount and needs no look at the mount table.
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir)) // the mount table has resolved paths
	if err != nil {
		return err
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	for _, mount := range slices.Backward(mounts) {
		err := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: another mount hides this one, see below
			return &os.PathError{Op: "unmount", Path: mount.Mountpoint, Err: err}
		}
	}
	// A hidden mount is unmounted with its parent mount. If not, this second list finds it.
	left, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is mounted in a directory that is to be removed, unmount it: %w", left[0].Mountpoint,
			errdefs.ErrFailedPrecondition)
	}
	return os.RemoveAll(dir)
}
