package nodelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	// lockFile is locked (flock) by the process that uses a root directory. It stays when that ends.
	lockFile = "lock"
	// ownerFile names whose pods a root directory is for: another owner would remove their volumes as leftovers.
	ownerFile = "owner"
)

// ErrInUse says that another process has a root directory; it is an errdefs.ErrFailedPrecondition.
var ErrInUse = fmt.Errorf("the directory is in use: %w", errdefs.ErrFailedPrecondition)

// Root is a root directory that belongs to this process until Release, or until the process ends however it does.
type Root struct {
	dir  string
	file *os.File
}

// LockWholeRoot is LockRoot for who removes the directory with all that is in it: one that has something in it and is not
// the owner's already is refused, with errdefs.ErrFailedPrecondition, and nothing is written into it.
func LockWholeRoot(dir, owner string) (*Root, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 && (len(entries) > 1 || entries[0].Name() != lockFile) { // a lock alone is of a start that was cut off
		if err := CheckOwner(dir, owner); errdefs.IsNotFound(err) {
			return nil, fmt.Errorf("the root directory %s, all of which is removed in the end, has files of other programs in it: give another --root-dir: %w",
				dir, errdefs.ErrFailedPrecondition)
		} else if err != nil {
			return nil, err
		}
	}
	return LockRoot(dir, owner)
}

// CheckOwner fails with errdefs.ErrNotFound when dir is nobody's root directory, and with errdefs.ErrFailedPrecondition
// when it is another owner's. Nothing is changed.
func CheckOwner(dir, owner string) error {
	noted, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is no root directory of a kubelet core: %w", dir, errdefs.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if before := strings.TrimSpace(string(noted)); before != owner {
		return fmt.Errorf("the root directory %s is for the pods of owner %q, not of %q: give --owner %s, or another --root-dir: %w",
			dir, before, owner, before, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// LockRoot makes dir where it is missing, and takes it for the owner. It fails at once, with errdefs.ErrFailedPrecondition,
// when another process has it or when it was made for another owner.
func LockRoot(dir, owner string) (_ *Root, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("the root directory %s is in use by another kubelet core: give this one a --root-dir or an --owner of its own: %w",
			dir, ErrInUse)
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	if err := claim(dir, owner); err != nil {
		return nil, err
	}
	return &Root{dir: dir, file: file}, nil
}

// claim notes the owner, or compares it with the one noted before.
func claim(dir, owner string) error {
	err := CheckOwner(dir, owner)
	if errdefs.IsNotFound(err) {
		return renameio.WriteFile(filepath.Join(dir, ownerFile), []byte(owner+"\n"), 0o644, renameio.WithTempDir(dir))
	}
	return err
}

// RemoveAll removes the directory with all that is in it, the owner after the rest and the lock last: what a crash leaves is
// the owner's still, and nobody else gets a lock before the end.
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
	if err := os.Remove(filepath.Join(r.dir, ownerFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(r.dir)
}

// Release lets another process have the directory.
func (r *Root) Release() error { return r.file.Close() }
