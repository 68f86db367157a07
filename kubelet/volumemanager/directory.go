package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// writableByAll is the mode of a pod's own directory: a container may run as any user.
const writableByAll = 0o777

// host implements volumekinds.Host.
type host struct{ opts *Options }

// Directory builds the directory under another name first, so that its final name never has the wrong owner or mode.
// Two pods with one claim, even of two kubelet cores, may make the directory at the same time. The first directory
// stays.
func (host) Directory(path string, pod *v1.Pod) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), writableByAll&^0o027); err != nil {
		return err
	}
	// The temporary name leaves out the name of path, which may already have the greatest length of a file name.
	building, err := os.MkdirTemp(filepath.Dir(path), "~building")
	if err != nil {
		return err
	}
	defer os.Remove(building) // after the renaming there is nothing to remove
	if err := makeDirectory(building); err != nil {
		return err
	}
	if err := own(building, fsGroup(pod), writableFiles); err != nil {
		return err
	}
	err = renameNew(building, path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// renameNew renames a directory to a free name. rename(2) would replace an empty directory, which another pod may have
// mounted.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system without RENAME_NOREPLACE, such as NFS
		return os.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Tmpfs mounts a tmpfs at path unless something is mounted there. As in the kubelet, it is never larger than the memory
// that the node has for pods.
func (h host) Tmpfs(path string, pod *v1.Pod, limits ...int64) error {
	allocatable := h.opts.Allocatable()
	return makeTmpfs(path, fsGroup(pod), smallest(append(limits, allocatable.Memory().Value())))
}

// smallest returns the smallest limit. 0 means no limit.
func smallest(limits []int64) (least int64) {
	for _, limit := range limits {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// makeDirectory makes the directory with writableByAll, independent of the umask.
func makeDirectory(path string) error {
	if err := os.MkdirAll(path, writableByAll&^0o027); err != nil {
		return err
	}
	return os.Chmod(path, writableByAll)
}

// makeTmpfs mounts a tmpfs at path unless something is mounted there, and gives it to group.
func makeTmpfs(path string, group *int64, size int64) error {
	mounted, err := isMountPoint(path)
	if err != nil || mounted {
		return err
	}
	if err := makeDirectory(path); err != nil {
		return err
	}
	return mountTmpfs(path, group, size)
}

// mountTmpfs limits the tmpfs to size bytes; 0 is the kernel's default, half of the memory. Its pages are not swapped
// out, if the kernel has the option noswap (6.4). The mount options set the group and the mode. If a later call set
// them, a crash after the mount would leave the tmpfs without them, because an existing mount is not changed.
func mountTmpfs(path string, group *int64, size int64) error {
	options := ""
	if size > 0 {
		options = fmt.Sprintf("size=%d,", size)
	}
	if group != nil {
		options += fmt.Sprintf("gid=%d,mode=3777,", *group) // setgid, and the sticky bit of every tmpfs
	}
	err := unix.Mount("tmpfs", path, "tmpfs", 0, options+"noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", path, err)
	}
	return nil
}
