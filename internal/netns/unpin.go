package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// maxStackedPins bounds the loop that takes mounts off a pin: programs that
// pinned the same name at the same time may have stacked a few.
const maxStackedPins = 64

// Unpin removes the pin. The namespace itself ends with its last process and its last other pin. Unpin does not disturb
// processes in the namespace.
//
// It is idempotent: a missing file is success, and so is a file without a mount, as a crash or a reboot leaves it.
// For a path that is not a pin, Unpin fails with errdefs.ErrFailedPrecondition and changes nothing. Such a path is a
// directory, a file with content, or a link such as /proc/PID/ns/net. For an empty path, Unpin fails with
// errdefs.ErrInvalidArgument.
func (h Handle) Unpin() error {
	defer step.At("namespace: unpin")()
	if h.path == "" {
		return fmt.Errorf("unpinning a network namespace without a path: %w", errdefs.ErrInvalidArgument)
	}
	err := requireEmptyFile(h.path)
	if err == nil {
		err = detachAll(h.path)
	}
	if err == nil {
		err = os.Remove(h.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unpinning the network namespace: %w", err)
	}
	return nil
}

// detachAll takes every mount off path. Detaching works while the namespace is still in use.
func detachAll(path string) error {
	defer step.At("namespace: unmount")()
	for range maxStackedPins {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) {
			return nil // nothing (more) is mounted on it
		}
		if err != nil {
			return &os.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
	return fmt.Errorf("%s has more than %d mounts on it: %w", path, maxStackedPins, errdefs.ErrFailedPrecondition)
}
