package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// kernelHolder has the kernel keep a pod's namespaces: they are pinned, and the pod's /dev/shm is mounted, without any
// process. Nothing of that outlives the machine. What it has of a pod beside its network namespace is in one directory:
//
//	owner  whose pod it is, and a copy of its first record
//	ipc    the pin of the IPC namespace, unless the pod uses the node's
//	uts    the pin of the UTS namespace, unless the pod uses the node's
//	user   the pin of the user namespace, if the pod has one of its own: the others belong to it
//	shm    a tmpfs, the /dev/shm of those who are in the IPC namespace
//
// An earlier version has to take pods of a later one down, so the names keep their meaning. Versions that write records
// of schema 1 cannot remove a directory that holds more than these files.
type kernelHolder struct{ s *Service }

// defaultPodsDir is on a tmpfs.
const defaultPodsDir = "/run/criadapter/pods"

const (
	ownerFile = "owner"
	ipcFile   = "ipc"
	utsFile   = "uts"
	shmDir    = "shm"
)

// Alive reports whether the namespaces of a pod without a sandbox container are alive and its /dev/shm is mounted. An
// error means that this cannot be told now.
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

// hasOwnFileSystem reports whether a directory is the mount point of another file system than its parent's. In a plain
// directory in the place of the pod's /dev/shm, containers would fill the node's /run.
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
	return netns.Set{Network: record.NetnsPath, IPC: record.Namespaces.IPC, UTS: record.Namespaces.UTS, User: record.UserNamespace}
}

// dirOf is the directory of a pod.
func (h kernelHolder) dirOf(id string) string { return filepath.Join(h.s.opts.podsDir, id) }

// namespacesOf is what a pod has there, whose record is lost.
func (h kernelHolder) namespacesOf(id string) *checkpoint.Namespaces {
	dir := h.dirOf(id)
	return &checkpoint.Namespaces{
		Dir: dir, IPC: filepath.Join(dir, ipcFile), UTS: filepath.Join(dir, utsFile), Shm: filepath.Join(dir, shmDir),
	}
}

// create implements holder. The engine never uses an id twice, and neither does chance.
func (h kernelHolder) create(_ context.Context, p *pending) (string, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	id := hex.EncodeToString(random)
	p.record.Namespaces = h.namespacesOf(id)
	if !p.kernel.UTS {
		p.record.Namespaces.UTS = ""
	}
	if !p.kernel.IPC {
		p.record.Namespaces.IPC, p.record.Namespaces.Shm = "", ""
	}
	if p.kernel.Users != nil {
		p.record.UserNamespace = filepath.Join(p.record.Namespaces.Dir, userFile)
	}
	return id, nil
}

// start implements holder. What a crash leaves without a record is found by its owner, see Service.look.
func (h kernelHolder) start(ctx context.Context, p *pending) error {
	if err := h.makeCgroup(p); err != nil {
		return err
	}
	if path := p.record.NetnsPath; path != "" {
		p.undo.push("unpin the pod's network namespace", func(context.Context) error { return netns.Open(path).Unpin() })
	}
	var group errgroup.Group
	group.Go(func() error { return h.s.opts.Store.Save(ctx, p.record) })
	group.Go(func() error { return h.make(ctx, p) })
	if err := group.Wait(); err != nil {
		return err
	}
	// Now that the record is there: files are found by it alone.
	return h.s.opts.Files.write(p.record.SandboxID, p.config)
}

// make makes the pod's directory and all that is in it, and its network namespace.
func (h kernelHolder) make(ctx context.Context, p *pending) error {
	ns := p.record.Namespaces
	if err := makeOwned(ns.Dir, owner{RootDirectory: h.s.opts.RootDirectory, Record: p.record}); err != nil {
		return fmt.Errorf("making the directory of the pod's namespaces: %w", err)
	}
	if ns.Shm != "" {
		if err := mountShm(ns.Shm, p.kernel.Users); err != nil {
			return err
		}
	}
	set := setOf(p.record)
	set.Hostname, set.Sysctls = p.kernel.Hostname, p.kernel.Sysctls
	setUsers(&set, p.kernel.Users)
	if err := set.Make(ctx); err != nil {
		if errdefs.IsInvalidArgument(err) {
			return fmt.Errorf("config.linux.sysctls: %w", err)
		}
		return err
	}
	return nil
}

func mountShm(dir string, users *translate.Users) error {
	defer step.At("pod directory: mount shm")()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("making the pod's /dev/shm: %w", err)
	}
	options := "mode=1777,size=" + strconv.Itoa(translate.ShmSize)
	if users != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", users.UIDs.HostID, users.GIDs.HostID)
	}
	if err := unix.Mount("shm", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mounting the pod's /dev/shm: %w", err)
	}
	return nil
}

// makeCgroup makes the pod's cgroup where nobody has: its limits are in force before there is a container.
func (h kernelHolder) makeCgroup(p *pending) error {
	if p.record.Cgroup == nil {
		return nil
	}
	for _, dir := range h.s.opts.Cgroups.ParentDirs(p.cgroupDriver, p.cgroupParent) {
		if err := cgroup.Make(dir); err != nil {
			return fmt.Errorf("making the pod's cgroup of config.linux.cgroup_parent: %w", err)
		}
	}
	return nil
}

// connect implements holder.
func (h kernelHolder) connect(ctx context.Context, p *pending) error {
	var j joined
	j.result, j.err = h.s.opts.Network.Add(ctx, cniPod(p.record, p.config))
	h.s.keep(p, j)
	return j.err
}

// abandon implements holder.
func (h kernelHolder) abandon(*pending) {}

// entry implements holder.
func (h kernelHolder) entry(ctx context.Context, p *pending) state.Pod {
	return state.PodOf(ctx, p.record)
}

// repair implements holder: a pod that has lost a namespace does not run, and one that runs has them all.
func (h kernelHolder) repair(context.Context, *state.Pod, checkpoint.Record) error { return nil }

// stop implements holder. Containers that still run keep what they have.
func (h kernelHolder) stop(ctx context.Context, id string) error {
	if err := h.remove(ctx, id); err != nil {
		return err
	}
	h.s.opts.Cache.EndPod(id)
	return nil
}

// remove implements holder. The directory goes after all that is in it.
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
	if err := removeOwned(ns.Dir, h.s.opts.RootDirectory); err != nil {
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

// holds reports whether a pod of this criadapter, whose record may be lost, has a directory.
func (h kernelHolder) holds(id string) bool {
	found, err := readOwner(h.dirOf(id))
	return err == nil && found.RootDirectory == h.s.opts.RootDirectory
}
