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

// The kubelet owns the log directories, but collectors and pods that mount them may write there, too. criadapter runs
// as root, so a link in place of a directory must not lead criadapter's writes elsewhere. criadapter opens each
// directory below a pod's log directory by a descriptor (os.Root), which renames do not change. Links above the pod's
// log directory belong to the operator: /var/log/pods may be one.

// MakeDirectory makes the directory of a log, which is root or below it. It fails with ErrFailedPrecondition if a link
// leads out of root. An empty root stands for the directory itself.
func MakeDirectory(root, dir string) error {
	defer step.At("log directory: make")()
	opened, err := openDirectory(root, dir)
	if err != nil {
		return err
	}
	return opened.Close()
}

// openDirectory is MakeDirectory and returns the open directory.
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
	defer top.Close() // the returned directory stays open
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

// openRoot opens a pod's log directory, and returns the name of a log in it. No name leads out of the opened directory,
// even if another process exchanges a directory for a link later. openRoot fails with ErrFailedPrecondition if a link
// leads out of root already, and with fs.ErrNotExist if the log's directory is missing. An empty root stands for the
// log's own directory.
func openRoot(root, logPath string) (top *os.Root, name string, err error) {
	name, err = filepath.Rel(root, logPath)
	if root == "" || err != nil || !filepath.IsLocal(name) {
		root, name = filepath.Dir(logPath), filepath.Base(logPath)
	}
	if top, err = os.OpenRoot(root); err != nil {
		return nil, "", fmt.Errorf("opening the log directory: %w", err)
	}
	if _, err := top.Stat(filepath.Dir(name)); err != nil {
		top.Close() // only looked at
		return nil, "", leaves(root, filepath.Dir(logPath), err)
	}
	return top, name, nil
}

// leaves explains an error of os.Root. An error without an errno means that a link leads out of root.
func leaves(root, dir string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return fmt.Errorf("opening the log directory: %w", err)
	}
	return fmt.Errorf("the log directory %s leads out of the pod's, %s, by a link: remove the link (%w): %w", dir, root,
		err, errdefs.ErrFailedPrecondition)
}

// openBeneath opens the file at path, in a directory from openDirectory. It fails if the file is a link.
func openBeneath(root, path string, flags int) (*os.File, error) {
	dir, err := openDirectory(root, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() // the file stays open
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
