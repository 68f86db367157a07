package volumemanager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// RemoveClaim removes a claim of ClaimsDir with its files. The files stay if the claim is bound to a persistent volume:
// the claim's entry is then a link. The link is removed even while the volume is mounted: a local volume is often a
// disk, which the node itself keeps mounted. A claim without a persistent volume stays while it is mounted anywhere on
// the machine, whole or in part. The error is then an errdefs.ErrFailedPrecondition. The claim also stays if the mounts
// of a process cannot be read. A missing claim is not an error. A name that is not a valid directory name is an
// errdefs.ErrInvalidArgument, because the path could be a directory of other claims.
func RemoveClaim(claimsDir, namespace, name string) error {
	if err := claimElements(namespace, name); err != nil {
		return err
	}
	entry := filepath.Join(claimsDir, namespace, name)
	found, err := os.Lstat(entry)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && found.IsDir() {
		err = checkUnmounted(entry)
	}
	if err != nil {
		return fmt.Errorf("claim %s/%s: %w", namespace, name, err)
	}
	return os.RemoveAll(entry)
}

// checkUnmounted returns an error if a file system is mounted in the directory, because its files are not the claim's.
// It also returns an error if the directory, or a part of it, is mounted in the mount namespace of any process. If the
// mounts of a process cannot be read, the directory counts as mounted.
func checkUnmounted(dir string) error {
	points, err := mountPoints(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is mounted in it: %w", strings.Join(points, ", "), errdefs.ErrFailedPrecondition)
	}
	device, root, err := inFileSystem(dir)
	if err != nil {
		return err
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, process := range processes {
		mounts, err := mountsOf(process)
		if err != nil {
			return fmt.Errorf("mounts of process %s: %w", filepath.Base(process), err)
		}
		for _, mount := range mounts {
			if deviceOf(mount) == device && within(mount.Root, root) {
				return fmt.Errorf("process %s has it mounted at %s: %w", filepath.Base(process), mount.Mountpoint,
					errdefs.ErrFailedPrecondition)
			}
		}
	}
	return nil
}

// mountsOf returns the mounts of a process's mount namespace, or none if the process has ended.
func mountsOf(process string) ([]*mountinfo.Info, error) {
	file, err := os.Open(filepath.Join(process, "mountinfo"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // EINVAL: the process has ended, and its parent has not waited for it yet
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return mountinfo.GetMountsFromReader(file, nil)
}

// inFileSystem returns the device of a directory's file system, and the directory's path from the file system's root.
func inFileSystem(dir string) (device, root string, err error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", "", err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(real))
	if err != nil {
		return "", "", err
	}
	var of *mountinfo.Info
	for _, mount := range mounts {
		if of == nil || len(mount.Mountpoint) >= len(of.Mountpoint) {
			of = mount
		}
	}
	if of == nil {
		return "", "", fmt.Errorf("no mount contains %s: %w", real, errdefs.ErrNotFound)
	}
	below, err := filepath.Rel(of.Mountpoint, real)
	return deviceOf(of), filepath.Join(of.Root, below), err
}

func deviceOf(mount *mountinfo.Info) string { return fmt.Sprintf("%d:%d", mount.Major, mount.Minor) }

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
