package netns

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const (
	// lockTimeout bounds the wait for another program that prepares the
	// directory; the work under the lock is two system calls.
	lockTimeout = 5 * time.Second
	// lockRetry is the time between two tries.
	lockRetry = 10 * time.Millisecond
)

// ShareDir prepares a directory for pins; [Pin] does so by itself. It is idempotent.
func ShareDir(dir string) error {
	if err := shareDir(dir); err != nil {
		return fmt.Errorf("preparing %s for pinned namespaces: %w", dir, err)
	}
	return nil
}

// shareDir makes the directory of the pins and turns it into a mount point with shared propagation, as iproute2 does.
// Mount namespaces copied from this one then see each new pin, and lose it when it is unpinned here. Without
// propagation, each copy of a pin would keep its namespace alive.
func shareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := makeShared(dir)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// The directory is not a mount point yet. iproute2 takes the same lock, so that the directory is not mounted on
	// itself twice. The second mount would hide earlier pins.
	unlock, err := lockDir(dir, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	err = makeShared(dir)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "bind mount on itself", Path: dir, Err: err}
	}
	return makeShared(dir)
}

// makeShared makes the mount at dir shared. It fails with EINVAL if dir is not a mount point. On a shared mount it
// changes nothing.
func makeShared(dir string) error {
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "make shared", Path: dir, Err: err}
	}
	return nil
}

// lockDir takes an exclusive lock on the directory itself; unlock releases it.
// After timeout it gives up with errdefs.ErrUnavailable.
func lockDir(dir string, timeout time.Duration) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockRetry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("another program has held the lock of %s for %v: %w", dir, timeout,
				errdefs.ErrUnavailable)
		}
	}
}
