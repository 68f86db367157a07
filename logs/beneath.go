package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// The log directories are the kubelet's, but not its alone: collectors and pods that mount them may write there. A link
// that one of them puts in the place of a directory must not have this process, which is root, write elsewhere. So the
// way below a pod's log directory is walked by descriptors (os.Root), each of which stays what it is, whatever is renamed
// meanwhile. Above it links are the operator's: /var/log/pods may be one.

// MakeDirectory makes the directory of a log, which is root or below it. It fails with ErrFailedPrecondition where a link
// leads out of root; an empty root is the directory itself.
func MakeDirectory(root, dir string) error {
	defer step.At("log directory: make")()
	opened, err := openDirectory(root, dir)
	if err != nil {
		return err
	}
	return opened.Close()
}

// openDirectory makes and opens a directory as MakeDirectory does.
func openDirectory(root, dir string) (*os.File, error) {
	below, err := filepath.Rel(root, dir)
	if root == "" || err != nil || !filepath.IsLocal(below) {
		root, below = dir, "."
	}
	if err := os.MkdirAll(root, dirMode); err != nil {
		return nil, fmt.Errorf("making the log directory: %w", err)
	}
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening the log directory: %w", err)
	}
	defer top.Close() // what is opened below it stays open
	if below != "." {
		if err := top.MkdirAll(below, dirMode); err != nil {
			return nil, leaves(root, dir, err)
		}
	}
	opened, err := top.Open(below)
	if err != nil {
		return nil, leaves(root, dir, err)
	}
	return opened, nil
}

// leaves explains an error of os.Root: one that is not the kernel's says that a link leads out of the root.
func leaves(root, dir string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return fmt.Errorf("making the log directory: %w", err)
	}
	return fmt.Errorf("the log directory %s leads out of the pod's, %s, by a link, remove it (%w): %w", dir, root, err, errdefs.ErrFailedPrecondition)
}

// openBeneath opens a file, no link, in a directory that openDirectory opens.
func openBeneath(root, path string, flags int) (*os.File, error) {
	dir, err := openDirectory(root, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() // only looked at
	var fd int
	for {
		fd, err = unix.Openat(int(dir.Fd()), filepath.Base(path), flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
