package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// SubPathRequest is a path in a volume that a container mounts.
type SubPathRequest struct {
	Pod *v1.Pod
	// Container is the container's name, Index the mount's index in it. The bind mount's path ends in Container/Index.
	Container string
	Index     int
	// Volume is the volume's name, Path the path in the volume. Missing directories are made.
	Volume, Path string
}

// SubPath returns a host path of the part of the volume. A container that can write to the volume may replace the part
// with a link to the host's root, which must not be mounted. So SubPath opens the part without leaving the volume, and
// bind-mounts the open file at another path. Unmount removes the bind mount.
func (m *Manager) SubPath(req SubPathRequest) (string, error) {
	source, err := m.Find(req.Pod, req.Volume)
	if err != nil {
		return "", err
	}
	if source.Image != nil {
		return "", fmt.Errorf("volume %q is an image, whose parts the runtime mounts: %w", req.Volume,
			errdefs.ErrInvalidArgument)
	}
	if !filepath.IsLocal(req.Path) {
		return "", fmt.Errorf("subPath: %q does not stay in volume %q: %w", req.Path, req.Volume,
			errdefs.ErrInvalidArgument)
	}
	if err := element("container name", req.Container); err != nil {
		return "", err
	}
	part, err := openPart(source.Path, req.Path)
	if err != nil {
		return "", fmt.Errorf("subPath %q of volume %q: %w", req.Path, req.Volume, err)
	}
	defer part.Close()
	directory, err := m.podDirectory(req.Pod.UID)
	if err != nil {
		return "", err
	}
	target := filepath.Join(directory, "volume-subpaths", req.Volume, req.Container, strconv.Itoa(req.Index))
	if err := bind(part, target); err != nil {
		return "", fmt.Errorf("subPath %q of volume %q: %w", req.Path, req.Volume, err)
	}
	return target, nil
}

// openPart opens path in the volume, without leaving the volume, and makes missing directories.
func openPart(volume, path string) (*os.File, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := root.Stat(path); errors.Is(err, fs.ErrNotExist) {
		info, err := root.Stat(".")
		if err != nil {
			return nil, err
		}
		if err := makeDirectories(root, path, info.Mode()); err != nil {
			return nil, err
		}
	}
	real, err := resolve(volume, path)
	if err != nil {
		return nil, err
	}
	part, err := root.OpenFile(real, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := part.Stat()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("it became a link while it was opened: %w", errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	return part, nil
}

// makeDirectories gives new directories the volume's mode, whatever the umask. With setgid, for an fsGroup, new files
// in them belong to the group.
func makeDirectories(root *os.Root, path string, mode fs.FileMode) error {
	mode &= fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	made := ""
	for _, name := range strings.Split(filepath.Clean(path), "/") {
		made = filepath.Join(made, name)
		err := root.Mkdir(made, mode.Perm()&^0o022)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := root.Chmod(made, mode); err != nil {
			return err
		}
	}
	return nil
}

// resolve follows the links of path and returns the result relative to the volume. The result may be outdated at once,
// so openPart follows no link out of the volume.
func resolve(volume, path string) (string, error) {
	base, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(base, path))
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(base, real)
	if err != nil || !filepath.IsLocal(relative) {
		return "", fmt.Errorf("it leads out of the volume: %w", errdefs.ErrInvalidArgument)
	}
	return relative, nil
}

// bind bind-mounts an open file or directory at target. It replaces an older mount: each update of a config map makes
// new files.
func bind(part *os.File, target string) error {
	if err := unmountBelow(target); err != nil {
		return err
	}
	info, err := part.Stat()
	if err != nil {
		return err
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	source := "/proc/self/fd/" + strconv.Itoa(int(part.Fd()))
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return &fs.PathError{Op: "bind", Path: target, Err: err}
	}
	return nil
}

// makeTarget makes an empty directory or file to mount on, and removes an old one.
func makeTarget(target string, directory bool) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if directory {
		return os.Mkdir(target, 0o750)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}
