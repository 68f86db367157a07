package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// DefaultDir is the default directory of pins, where iproute2 looks for named namespaces.
const DefaultDir = "/run/netns"

// Pin keeps the network namespace of the process pid alive under directory/name, until [Handle.Unpin]. A missing
// directory is made. The directory becomes a shared mount, so that programs in other mount namespaces see the pin.
//
// Pin is idempotent: it succeeds if name pins this namespace already. It takes over the file that a crash left without
// a mount. A failed Pin leaves no pin.
//
// It returns errdefs.ErrInvalidArgument for a bad pid, directory or name, and errdefs.ErrNotFound for a process that is
// gone. It returns errdefs.ErrAlreadyExists when name pins another namespace. It returns errdefs.ErrFailedPrecondition
// when the process is in this program's own network namespace: configuring it for a pod would take the node off the
// network.
func Pin(pid int, dir, name string) (Handle, error) {
	if err := validate(dir, name); err != nil {
		return Handle{}, err
	}
	ns, err := openProcess(pid)
	if err != nil {
		return Handle{}, err
	}
	defer ns.Close()
	if err := refuseOwn(ns); err != nil {
		return Handle{}, err
	}
	if err := ShareDir(dir); err != nil {
		return Handle{}, err
	}
	path := filepath.Join(dir, name)
	if err := pin(ns, path); err != nil {
		return Handle{}, fmt.Errorf("pinning the network namespace of process %d: %w", pid, err)
	}
	return Open(path), nil
}

// pin mounts the open namespace ns on path.
func pin(ns *os.File, path string) (err error) {
	defer step.At("namespace: pin")()
	made, err := makeMountPoint(path)
	if err != nil {
		return err
	}
	if !made {
		switch pinned, err := openNamespace(path); {
		case err == nil:
			defer pinned.Close()
			return requireSame(pinned, ns)
		case errdefs.IsFailedPrecondition(err):
			if err := requireEmptyFile(path); err != nil {
				return err
			}
		default:
			return err
		}
	}
	// The mount's source is the open file, since the process may end and its id be reused at any time.
	source := fmt.Sprintf("/proc/self/fd/%d", ns.Fd())
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		err = &os.PathError{Op: "bind mount", Path: path, Err: err}
		if made {
			return errors.Join(err, os.Remove(path))
		}
		return err
	}
	return nil
}

// makeMountPoint makes the empty file that a namespace is mounted on; made is false if the file exists.
func makeMountPoint(path string) (made bool, err error) {
	defer step.At("namespace: make mount point")()
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// requireSame returns errdefs.ErrAlreadyExists unless the existing pin is of the wanted namespace.
func requireSame(pinned, wanted *os.File) error {
	same, err := sameNamespace(pinned, wanted)
	if err == nil && !same {
		err = fmt.Errorf("%s pins another network namespace, unpin it first: %w", pinned.Name(),
			errdefs.ErrAlreadyExists)
	}
	return err
}

// requireEmptyFile fails for any file but an empty regular one, which an interrupted Pin leaves.
func requireEmptyFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != 0 {
		return fmt.Errorf("%s is not a pinned network namespace, move it away: %w", path, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// refuseOwn returns errdefs.ErrFailedPrecondition when ns is the namespace that this program is in.
func refuseOwn(ns *os.File) error {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	same, err := sameNamespace(own, ns)
	if err == nil && same {
		err = fmt.Errorf("%s is the network namespace of this program itself, only a pod's own is pinned: %w",
			ns.Name(), errdefs.ErrFailedPrecondition)
	}
	return err
}

// validate checks the directory and the name of a pin.
func validate(dir, name string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("the directory of pinned network namespaces is %q, it must be an absolute path: %w", dir,
			errdefs.ErrInvalidArgument)
	}
	if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q cannot name a pinned network namespace, it must be a file name: %w", name,
			errdefs.ErrInvalidArgument)
	}
	return nil
}
