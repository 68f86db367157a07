package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/userns"
)

// A container in a user namespace sees the node's files through extra mounts that map their owners. The mounts are in a
// mount namespace of this program, which the real runtime and the container inherit, so they end with the container.
// The mount points are empty directories of the node: the runtime looks for the container's root at each command, also
// outside the mount namespace. The root user of the user namespace must be able to reach them.
const (
	filesDir = "/run/criadapter-oci"
	rootDir  = filesDir + "/rootfs"
	// stageDir is a tmpfs, with the layers of the root and the mapped mounts.
	stageDir = filesDir + "/stage"
)

// mapFiles mounts the files of a container in a user namespace and returns the container's configuration with the
// mounts. The calling goroutine stays locked to its thread, because only this thread is in the new mount namespace. It
// must become the real runtime.
func mapFiles(config []byte, bundle string, note ocinote.Note) ([]byte, error) {
	files, err := ocinote.FilesOf(config, bundle, note)
	if err != nil {
		return nil, err
	}
	ns, err := userns.Open(note.UserNamespace())
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	runtime.LockOSThread()
	if err := leaveMounts(); err != nil {
		return nil, err
	}
	s := stage{ns: ns}
	if s.engine, err = filepath.EvalSymlinks(note.EngineRoot); err != nil {
		return nil, fmt.Errorf("the engine's data directory: %w", err)
	}
	if s.uid, s.gid, err = note.HostRoot(); err != nil {
		return nil, err
	}
	if err := s.mountRoot(files.Root); err != nil {
		return nil, fmt.Errorf("the container's root for its user namespace: %w", err)
	}
	moved := ocinote.Files{Root: rootDir, Mounts: map[string]string{}}
	for destination, source := range files.Mounts {
		if moved.Mounts[destination], err = s.cloneVolume(source, files.ReadOnly[destination]); err != nil {
			return nil, fmt.Errorf("the mount at %s for the container's user namespace: %w", destination, err)
		}
	}
	return ocinote.MoveFiles(config, moved)
}

// leaveMounts moves the calling thread into a mount namespace of its own, which still receives the node's mounts, and
// makes the directories there.
func leaveMounts() error {
	for _, dir := range []string{filesDir, rootDir, stageDir} {
		// MkdirAll applies containerd's umask. The root user of the user namespace must be able to pass the directory.
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return err
		}
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping mounts from the node: %w", err)
	}
	if err := syscall.Mount("criadapter", stageDir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV,
		"mode=755"); err != nil {
		return fmt.Errorf("mounting %s: %w", stageDir, err)
	}
	return nil
}

// stage is the set of mounts at stageDir.
type stage struct {
	ns userns.Namespace
	// uid and gid are the ids of the container's root on the node.
	uid, gid int
	count    int
	// engine is the engine's data directory, where it mounts the roots of images.
	engine string
}

// place makes a mount point for a directory or a file.
func (s *stage) place(source string) (string, error) {
	info, err := os.Stat(source)
	if err != nil {
		return "", err
	}
	target := filepath.Join(stageDir, strconv.Itoa(s.count))
	s.count++
	if info.IsDir() {
		return target, os.Mkdir(target, 0o755)
	}
	return target, os.WriteFile(target, nil, 0o644)
}

// clone mounts a directory or a file with mapped owners, and returns the place. With recursive it includes the mounts
// below it, with the node's owners.
func (s *stage) clone(source string, recursive bool) (string, error) {
	target, err := s.place(source)
	if err != nil {
		return "", err
	}
	return target, s.ns.Clone(source, target, recursive)
}

// cloneVolume clones a directory that a container mounts. The owners of an overlay cannot be mapped, but the owners of
// its layers can. cloneVolume mounts mapped layers only for the engine's read-only overlays, such as an image's. The
// mount options of another overlay may hold paths that mean other directories here.
func (s *stage) cloneVolume(source string, readOnly bool) (string, error) {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return "", err
	}
	m, err := mountOf(source)
	if err != nil {
		return "", err
	}
	if m.kind != "overlay" || !readOnly || s.engine == "" || !isBelow(s.engine, m.point) {
		return s.clone(source, true)
	}
	layers, err := m.layers()
	if err != nil {
		return "", err
	}
	rest, err := filepath.Rel(m.point, source)
	if err != nil {
		return "", err
	}
	dir, err := s.mountReadOnly(layers)
	return filepath.Join(dir, m.root, rest), err
}

// mountReadOnly mounts the layers of an overlay read-only, each with mapped owners.
func (s *stage) mountReadOnly(layers layers) (string, error) {
	dirs := layers.readable()
	if len(dirs) == 1 {
		return s.clone(dirs[0], false) // one layer makes no overlay
	}
	target, err := s.place(stageDir)
	if err != nil {
		return "", err
	}
	return target, s.mountOverlay(target, syscall.MS_RDONLY, dirs, layers.readOnly)
}

// mountRoot mounts the layers of an overlay, each with mapped owners, as an overlay of their own at rootDir.
func (s *stage) mountRoot(root string) error {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	m, err := mountOf(root)
	if err != nil {
		return err
	}
	layers, err := m.rootLayers(root)
	if err != nil {
		return err
	}
	// Only one overlay at a time may write to a layer or use a work directory. The layer's own work directory belongs
	// to the engine, whose overlay is mounted but not used.
	if err := os.MkdirAll(filepath.Join(layers.home, workName), 0o700); err != nil {
		return err
	}
	// The clone of the directory with the writable layer stays at the directory's own path: programs that count a
	// container's written bytes look at the path in the overlay's mount options.
	if err := s.ns.Clone(layers.home, layers.home, false); err != nil {
		return err
	}
	defer func() { _ = syscall.Unmount(layers.home, syscall.MNT_DETACH) }()
	return s.mountOverlay(rootDir, 0, layers.lower, layers.options)
}

// mountOverlay mounts an overlay of directories with mapped owners. It does so as the container's root on the node,
// which alone can write to a mapped directory: overlayfs checks access with the credentials of the process that mounted
// it. The names are relative, because mount options must fit into one page.
func (s *stage) mountOverlay(target string, flags uintptr, dirs []string, options func([]string) string) error {
	var names []string
	for _, dir := range dirs {
		clone, err := s.clone(dir, false)
		if err != nil {
			return err
		}
		defer func() { _ = syscall.Unmount(clone, syscall.MNT_DETACH) }() // the overlay keeps the clone in use
		names = append(names, filepath.Base(clone))
	}
	back, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := syscall.Chdir(stageDir); err != nil {
		return err
	}
	err = userns.ActAs(s.uid, s.gid, func() error {
		return syscall.Mount("overlay", target, "overlay", flags, options(names))
	})
	if err != nil {
		err = fmt.Errorf("an overlay of mapped layers (Linux 5.19 or newer is needed): %w", err)
	}
	return errors.Join(err, syscall.Chdir(back))
}

// giveStreams makes the container's root the owner of the pipes that are the standard streams. The pipes
// belong to the node's root, which is not mapped inside, so a program could not open /dev/stdout. The runtime then
// makes the container's user their owner.
func giveStreams(note ocinote.Note) error {
	uid, gid, err := note.HostRoot()
	if err != nil {
		return err
	}
	for fd := range 3 {
		var stat syscall.Stat_t
		if syscall.Fstat(fd, &stat) != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			continue
		}
		if err := syscall.Fchown(fd, uid, gid); err != nil {
			return fmt.Errorf("giving standard stream %d to the container's root: %w", fd, err)
		}
	}
	return nil
}
