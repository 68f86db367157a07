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
	// folder; the work under the lock is two system calls.
	lockTimeout = 5 * time.Second
	// lockRetry is the time between two tries.
	lockRetry = 10 * time.Millisecond
)

// shareFolder makes the folder of the pins and turns it into a mount point with
// shared propagation, as iproute2 does: a pin made here then appears in every
// mount namespace that got the folder from this one, and an unpinned one
// disappears there. Without it a namespace would stay alive in each copy.
func shareFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	err := makeShared(folder)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Not a mount point yet. iproute2 takes the same lock, so that the folder
	// is not mounted on itself twice, which would hide earlier pins.
	unlock, err := lockFolder(folder, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	err = makeShared(folder)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(folder, folder, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "bind mount on itself", Path: folder, Err: err}
	}
	return makeShared(folder)
}

// makeShared sets the propagation of the mount at folder, with EINVAL when
// folder is not a mount point. On a shared mount it changes nothing.
func makeShared(folder string) error {
	if err := unix.Mount("", folder, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "make shared", Path: folder, Err: err}
	}
	return nil
}

// lockFolder takes an exclusive lock on the folder itself; unlock releases it.
// After timeout it gives up with errdefs.ErrUnavailable.
func lockFolder(folder string, timeout time.Duration) (unlock func(), err error) {
	f, err := os.Open(folder)
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
			return nil, &os.PathError{Op: "lock", Path: folder, Err: err}
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("another program has held the lock of %s for %v: %w", folder, timeout, errdefs.ErrUnavailable)
		}
	}
}
