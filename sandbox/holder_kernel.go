package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// kernelHolder has the kernel keep a pod's namespaces: they are pinned, and the pod's /dev/shm is mounted, without any
// process. Neither pins nor mount survive a reboot. Except for the pin of the network namespace, they are in one
// directory per pod:
//
//	owner  the root directory of the pod's criadapter, and a copy of the pod's first record
//	ipc    the pin of the IPC namespace, unless the pod uses the node's
//	uts    the pin of the UTS namespace, unless the pod uses the node's
//	user   the pin of the user namespace, if the pod has one of its own: it owns the other namespaces
//	shm    a tmpfs, the /dev/shm of the containers in the IPC namespace
//
// An earlier version must be able to remove the pods of a later one, so the names keep their meaning. Versions that
// write records of schema 1 cannot remove a directory that holds more than these files.
type kernelHolder struct {
	opts       *Options
	network    podNetwork
	engineView *mountView
}

const (
	ipcFile  = "ipc"
	utsFile  = "uts"
	userFile = "user"
	shmDir   = "shm"
)

// Alive reports whether the namespaces of a pod without a sandbox container are alive and its /dev/shm is mounted. An
// error means that the answer is unknown.
func Alive(record checkpoint.Record) (bool, error) {
	ns := record.Namespaces
	if ns == nil {
		return false, nil
	}
	if _, err := os.Lstat(filepath.Join(ns.Dir, ownerFile)); err != nil {
		return false, ignoreMissing(err)
	}
	if ns.Shm != "" {
		if mounted, err := hasOwnFileSystem(ns.Shm); !mounted || err != nil {
			return false, ignoreMissing(err)
		}
	}
	return setOf(record).Alive()
}

// hasOwnFileSystem reports whether a directory is the mount point of another file system than its parent's. If the
// pod's /dev/shm were a plain directory, containers would fill the node's /run.
func hasOwnFileSystem(dir string) (bool, error) {
	var own, parent unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		return false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if err := unix.Lstat(filepath.Dir(dir), &parent); err != nil {
		return false, &os.PathError{Op: "lstat", Path: filepath.Dir(dir), Err: err}
	}
	return own.Dev != parent.Dev, nil
}

// ignoreMissing drops the error for a file that is certainly not there.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

func setOf(record checkpoint.Record) netns.Set {
	return netns.Set{Network: record.NetnsPath, IPC: record.Namespaces.IPC, UTS: record.Namespaces.UTS,
		User: record.UserNamespace}
}

// dirOf is the directory of a pod.
func (h kernelHolder) dirOf(id string) string { return filepath.Join(h.opts.podsDir, id) }

// namespacesOf returns the paths that a pod's namespaces have in its directory, whether or not they exist.
func (h kernelHolder) namespacesOf(id string) *checkpoint.Namespaces {
	dir := h.dirOf(id)
	return &checkpoint.Namespaces{
		Dir: dir, IPC: filepath.Join(dir, ipcFile), UTS: filepath.Join(dir, utsFile), Shm: filepath.Join(dir, shmDir),
	}
}

// repair implements holder. It does nothing, because a running pod has all its namespaces, see Alive.
func (h kernelHolder) repair(context.Context, *state.Pod, checkpoint.Record) error { return nil }

// stop implements holder. Containers that still run keep their namespaces.
func (h kernelHolder) stop(ctx context.Context, id string) error {
	if err := h.remove(ctx, id); err != nil {
		return err
	}
	h.opts.Cache.EndPod(id)
	return nil
}

// remove implements holder. It removes the directory last.
func (h kernelHolder) remove(_ context.Context, id string) error {
	ns := h.namespacesOf(id)
	if _, err := os.Lstat(ns.Dir); err != nil && ignoreMissing(err) == nil {
		return nil
	}
	if err := (netns.Set{IPC: ns.IPC, UTS: ns.UTS, User: filepath.Join(ns.Dir, userFile)}).Unpin(); err != nil {
		return err
	}
	if err := unmountShm(ns.Shm); err != nil {
		return err
	}
	if err := removeOwned(ns.Dir, h.opts.RootDirectory); err != nil {
		return fmt.Errorf("removing the directory of the pod's namespaces: %w", err)
	}
	return nil
}

func unmountShm(dir string) error {
	defer step.At("pod directory: unmount shm")()
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // EINVAL: it is not mounted
		return fmt.Errorf("unmounting the pod's /dev/shm: %w", err)
	}
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("removing the pod's /dev/shm: %w", err)
	}
	return nil
}

// holds reports whether a pod has a directory that this criadapter owns, even if the pod's record is lost.
func (h kernelHolder) holds(id string) bool {
	found, err := readOwner(h.dirOf(id))
	return err == nil && found.RootDirectory == h.opts.RootDirectory
}

// seenByEngine reports whether the engine sees the pins of pods that have no sandbox container.
func (h kernelHolder) seenByEngine(ctx context.Context, engine int) (bool, error) {
	seen, err := h.engineView.sees(ctx, engine, h.network.netnsDir())
	if err != nil || !seen {
		return false, err
	}
	return h.engineView.sees(ctx, engine, h.opts.podsDir)
}
