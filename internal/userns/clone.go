package userns

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Calls and constants of linux/mount.h. The numbers are the same on all architectures since Linux 5.1.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysMountSetattr = 442

	openTreeClone    = 0x1
	atEmptyPath      = 0x1000
	atRecursive      = 0x8000
	moveMountFEmpty  = 0x4
	mountAttrIDMap   = 0x00100000
	atFDCWD          = -100
	mountAttrVersion = unsafe.Sizeof(mountAttr{})
)

// mountAttr is struct mount_attr.
type mountAttr struct{ set, clear, propagation, namespace uint64 }

// Namespace is an open user namespace.
type Namespace struct{ file *os.File }

// getNSType is the ioctl NS_GET_NSTYPE of linux/nsfs.h.
const getNSType = 0xb703

// Open opens a user namespace by the path of its file.
func Open(path string) (Namespace, error) {
	// Without O_NONBLOCK a named pipe in the file's place would block.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Namespace{}, fmt.Errorf("opening the user namespace: %w", err)
	}
	kind, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), getNSType, 0)
	if errno != 0 || kind != syscall.CLONE_NEWUSER {
		_ = file.Close()
		return Namespace{}, fmt.Errorf(
			"%s is not a user namespace here: it was pinned in another mount namespace, or the pod is gone", path)
	}
	return Namespace{file}, nil
}

// Close closes the namespace's file.
func (n Namespace) Close() { _ = n.file.Close() }

// Clone also mounts source at target, with its owners mapped by the namespace. With recursive, the mounts below source
// appear there, too, with unmapped owners. Source and target are both directories or both files.
//
// It fails, for example, if the kernel cannot map owners on this file system.
func (n Namespace) Clone(source, target string, recursive bool) error {
	from, err := syscall.BytePtrFromString(source)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	flags := uintptr(openTreeClone | syscall.O_CLOEXEC)
	if recursive {
		flags |= atRecursive
	}
	here := atFDCWD
	tree, _, errno := syscall.Syscall(sysOpenTree, uintptr(here), uintptr(unsafe.Pointer(from)), flags)
	if errno != 0 {
		return &os.PathError{Op: "open_tree", Path: source, Err: errno}
	}
	defer func() { _ = syscall.Close(int(tree)) }()
	if err := n.mapTree(tree); err != nil {
		return &os.PathError{Op: "map the owners of", Path: source, Err: err}
	}
	var empty byte
	if _, _, errno := syscall.Syscall6(sysMoveMount, tree, uintptr(unsafe.Pointer(&empty)), uintptr(here),
		uintptr(unsafe.Pointer(to)), moveMountFEmpty, 0); errno != 0 {
		return &os.PathError{Op: "move_mount", Path: target, Err: errno}
	}
	return nil
}

func (n Namespace) mapTree(tree uintptr) error {
	var empty byte
	attr := mountAttr{set: mountAttrIDMap, namespace: uint64(n.file.Fd())}
	_, _, errno := syscall.Syscall6(sysMountSetattr, tree, uintptr(unsafe.Pointer(&empty)), atEmptyPath,
		uintptr(unsafe.Pointer(&attr)), mountAttrVersion, 0)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, syscall.EINVAL):
		return fmt.Errorf(
			"%w: the kernel cannot map owners on this file system (tmpfs since Linux 6.3), or has mapped them already",
			errno)
	case errors.Is(errno, syscall.ENOSYS):
		return fmt.Errorf("%w: Linux 5.12 or newer is needed", errno)
	}
	return errno
}
