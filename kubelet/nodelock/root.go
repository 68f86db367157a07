package nodelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	// lockFile is locked (flock) by the process that uses a root directory. The file itself stays.
	lockFile = "lock"
	// ownerFile has the owner of a root directory: another owner would remove the pods' volumes as leftovers.
	ownerFile = "owner"
)

// ErrInUse says that another process uses a root directory. It is an errdefs.ErrFailedPrecondition.
var ErrInUse = fmt.Errorf("the directory is in use: %w", errdefs.ErrFailedPrecondition)

// Root is a root directory that this process has locked, until Release or the end of the process.
type Root struct {
	dir  string
	file *os.File
}

// LockWholeRoot is LockRoot for a caller that removes the whole directory later. If the directory is neither empty nor
// the owner's, it returns an errdefs.ErrFailedPrecondition and writes nothing.
func LockWholeRoot(dir, owner string) (*Root, error) {
	err := checkWhole(dir, owner)
	if errdefs.IsNotFound(err) { // RemoveAll of another process may have begun: the owner's file goes before the lock
		err = checkWhole(dir, owner)
	}
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("the root directory %s has files of other programs and would be removed: "+
			"give another --root-dir: %w", dir, errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return nil, err
	}
	return LockRoot(dir, owner)
}

// checkWhole is CheckOwner for a directory that may be empty or missing. An interrupted start leaves only a lock.
func checkWhole(dir, owner string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || len(entries) == 0 || len(entries) == 1 && entries[0].Name() == lockFile {
		return err
	}
	return CheckOwner(dir, owner)
}

// CheckOwner returns an errdefs.ErrNotFound if dir is not a root directory, and an errdefs.ErrFailedPrecondition if it
// has another owner. It changes nothing.
func CheckOwner(dir, owner string) error {
	noted, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not the root directory of a kubelet core: %w", dir, errdefs.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if before := strings.TrimSpace(string(noted)); before != owner {
		return fmt.Errorf(
			"the root directory %s is for the pods of owner %q, not of %q: give --owner %s, or another --root-dir: %w",
			dir, before, owner, before, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// LockRoot makes dir if it is missing, and locks it for the owner. If another process has locked it or it has another
// owner, it returns an errdefs.ErrFailedPrecondition at once.
func LockRoot(dir, owner string) (*Root, error) {
	for {
		file, err := lockIn(dir)
		if errors.Is(err, os.ErrNotExist) && Removed(dir) {
			continue // another process's RemoveAll removed dir after lockIn made it
		}
		if err != nil {
			return nil, err
		}
		if !stands(file) {
			file.Close() // another process's RemoveAll removed the lock file after lockIn opened it
			continue
		}
		if err := claim(dir, owner); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return &Root{dir: dir, file: file}, nil
	}
}

// lockIn makes dir if it is missing, and locks its lock file.
func lockIn(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("the root directory %s is in use by another kubelet core: give each kubelet core its own "+
			"--root-dir or --owner: %w", dir, ErrInUse)
	} else if err != nil {
		err = fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// stands reports whether an open file is still the file at its path.
func stands(file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(file.Name())
	return err == nil && os.SameFile(opened, current)
}

// claim writes the owner, or compares it with the file.
func claim(dir, owner string) error {
	err := CheckOwner(dir, owner)
	if errdefs.IsNotFound(err) {
		return renameio.WriteFile(filepath.Join(dir, ownerFile), []byte(owner+"\n"), 0o644, renameio.WithTempDir(dir))
	}
	return err
}

// RemoveAll removes the directory and its content. The owner's file is removed after the rest, so that after a crash
// the directory still has its owner. The lock is removed last, so that no other process gets it meanwhile.
func (r *Root) RemoveAll() error {
	entries, err := os.ReadDir(r.dir)
	errs := []error{err}
	for _, entry := range entries {
		if name := entry.Name(); name != ownerFile && name != lockFile {
			errs = append(errs, os.RemoveAll(filepath.Join(r.dir, name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range []string{ownerFile, lockFile} {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return removeDir(r.dir)
}

// removeDir removes an empty directory. A mount point stays, and so does a directory that the next process has locked
// since the lock was removed.
func removeDir(dir string) error {
	for {
		err := os.Remove(dir)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EBUSY) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		left, readErr := os.ReadDir(dir)
		switch {
		case readErr != nil && !errors.Is(readErr, os.ErrNotExist):
			return readErr
		case len(left) == 0: // the next process has removed its lock already
		case slices.ContainsFunc(left, func(entry os.DirEntry) bool { return entry.Name() == lockFile }):
			return nil
		default:
			return err
		}
	}
}

// Removed reports whether a directory has neither an owner's file nor a lock, as after RemoveAll. An empty mount point
// may be left.
func Removed(dir string) bool {
	return !slices.ContainsFunc([]string{ownerFile, lockFile}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return !errors.Is(err, os.ErrNotExist)
	})
}

// Release unlocks the directory.
func (r *Root) Release() error { return r.file.Close() }
