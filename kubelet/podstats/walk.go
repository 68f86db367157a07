package podstats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk is a disk usage.
type Disk struct{ Bytes, Inodes int64 }

// Plus adds two usages.
func (d Disk) Plus(other Disk) Disk { return Disk{d.Bytes + other.Bytes, d.Inodes + other.Inodes} }

// batch is how many names of a directory are read at once, because there may be millions.
const batch = 1024

// measure returns the disk usage of a directory tree, as du does. It counts blocks, not sizes, and a file with several
// hard links once. It stays on one file system. It follows no symbolic link, so a container cannot make it leave the
// tree. When ctx ends, it returns the usage so far, with the error. A missing directory has no usage.
func measure(ctx context.Context, dir string) (Disk, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return Disk{}, nil
	}
	if err != nil {
		return Disk{}, fmt.Errorf("usage of %s: %w", dir, err)
	}
	defer unix.Close(root)
	w := walk{root: root, linked: map[uint64]bool{}}
	var top unix.Stat_t
	if err := unix.Fstat(root, &top); err != nil {
		return Disk{}, fmt.Errorf("usage of %s: %w", dir, err)
	}
	w.device = top.Dev
	w.count(&top)
	for w.todo = []string{""}; len(w.todo) > 0; {
		next := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if err := w.directory(ctx, next); err != nil {
			return w.sum, fmt.Errorf("usage of %s: %w", dir, err)
		}
	}
	return w.sum, nil
}

// walk is one measurement. It keeps no directory open, because a tree may be deeper than the limit of file descriptors.
type walk struct {
	root   int
	device uint64
	// linked are the inodes of counted files with several links.
	linked map[uint64]bool
	// todo are the paths of unread directories, below the root.
	todo []string
	sum  Disk
}

// count adds an inode. It returns whether the inode is a directory on this file system.
func (w *walk) count(stat *unix.Stat_t) (directory bool) {
	isDirectory := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if stat.Dev != w.device {
		return false
	}
	if !isDirectory && stat.Nlink > 1 {
		if w.linked[stat.Ino] {
			return false
		}
		w.linked[stat.Ino] = true
	}
	const block = 512 // the unit of st_blocks, see stat(2)
	w.sum.Bytes += stat.Blocks * block
	w.sum.Inodes++
	return isDirectory
}

// directory counts the entries of a directory, and adds directories to todo. Entries that vanish meanwhile do not
// count.
func (w *walk) directory(ctx context.Context, path string) error {
	opened, err := w.open(path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer opened.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := opened.Readdirnames(batch)
		for _, name := range names {
			var stat unix.Stat_t
			err := unix.Fstatat(int(opened.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
			if err != nil && !gone(err) {
				return err
			}
			if err == nil && w.count(&stat) {
				w.todo = append(w.todo, path+name+"/")
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// open opens a directory below the root. Its path ends in a slash; the root's path is empty.
func (w *walk) open(path string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Openat(w.root, ".", flags, 0)
	for name := range strings.SplitSeq(strings.TrimSuffix(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		var next int
		next, err = unix.Openat(at, name, flags, 0)
		unix.Close(at)
		at = next
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(at), path), nil
}

// gone says that an entry was removed or replaced.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ESTALE)
}
