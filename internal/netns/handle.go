package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

// Handle names a network namespace by the path of its file, for example a pin below /run/netns or /proc/PID/ns/net. It
// is a plain value: it holds nothing open, may be copied, and may name a namespace that is gone. Its methods are safe
// for concurrent use.
type Handle struct {
	path string
	// pid and container are set by OfContainer, 0 and empty otherwise.
	pid       int
	container string
}

// Open returns the handle of the namespace whose file is path, for example the path in a pod's record. It does not
// check the file; see [Handle.Alive].
func Open(path string) Handle { return Handle{path: path} }

// OfContainer returns the handle of a container's network namespace that is not pinned; pid is a process of the
// container. Each method checks that the process still is in the container, since an ended process's id can be reused.
// If it is not, the namespace counts as gone.
func OfContainer(pid int, containerID string) Handle {
	return Handle{path: fmt.Sprintf("/proc/%d/ns/net", pid), pid: pid, container: containerID}
}

// open opens the namespace's file, with the errors of openNamespace.
func (h Handle) open() (*os.File, error) {
	ns, err := openNamespace(h.path)
	if err != nil || h.container == "" {
		return ns, err
	}
	// The cgroup is read after the file was opened. A process that is in the container's cgroup now already had this
	// id when the file was opened.
	inside, err := proctable.LookInContainer(h.pid, h.container)
	if inside {
		return ns, nil
	}
	ns.Close()
	if err != nil && !isGone(err) {
		return nil, fmt.Errorf("reading the cgroup of process %d: %w", h.pid, err)
	}
	return nil, fmt.Errorf("the network namespace of container %s is gone, process %d is not in the container: %w",
		h.container, h.pid, errdefs.ErrNotFound)
}

// isGone reports whether a file, or the process that it describes, is certainly gone.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESRCH)
}

// Alive says whether the path leads to a network namespace now. A pin is alive
// until it is unpinned, whether or not a process is left in the namespace.
func (h Handle) Alive() bool {
	ns, err := h.open()
	if err != nil {
		return false
	}
	ns.Close()
	return true
}

// SameAs says whether the process pid is in the namespace. It returns
// errdefs.ErrNotFound when there is no such process or no such namespace.
func (h Handle) SameAs(pid int) (bool, error) {
	ns, err := h.open()
	if err != nil {
		return false, err
	}
	defer ns.Close()
	other, err := openProcess(pid)
	if err != nil {
		return false, err
	}
	defer other.Close()
	return sameNamespace(ns, other)
}

// openProcess opens the network namespace that the process pid is in.
func openProcess(pid int) (*os.File, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("process id %d: it must be positive: %w", pid, errdefs.ErrInvalidArgument)
	}
	return openNamespace(fmt.Sprintf("/proc/%d/ns/net", pid))
}

// openNamespace opens the file of a network namespace. It returns errdefs.ErrNotFound for a missing file. It returns
// errdefs.ErrFailedPrecondition for any other file, such as a pin's file after a reboot.
func openNamespace(path string) (*os.File, error) { return openKind(path, unix.CLONE_NEWNET) }

// kindNames has the names of the kinds of namespaces for messages, by clone flag.
var kindNames = map[int]string{unix.CLONE_NEWNET: "network", unix.CLONE_NEWIPC: "IPC", unix.CLONE_NEWUTS: "UTS",
	unix.CLONE_NEWUSER: "user"}

// openKind is openNamespace for a namespace that was made with the clone flag kind.
func openKind(path string, kind int) (*os.File, error) {
	// Without O_NONBLOCK a named pipe in the file's place would block.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if isGone(err) {
		return nil, fmt.Errorf("%s namespace %s is gone: %w", kindNames[kind], path, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the %s namespace: %w", kindNames[kind], err)
	}
	found, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_NSTYPE)
	if err != nil || found != kind {
		f.Close()
		return nil, fmt.Errorf("%s is not a %s namespace (any more): %w", path, kindNames[kind],
			errdefs.ErrFailedPrecondition)
	}
	return f, nil
}

// sameNamespace compares two open namespace files. Device and inode number
// identify a namespace as long as a file of it is open.
func sameNamespace(a, b *os.File) (bool, error) {
	infoA, err := a.Stat()
	if err != nil {
		return false, err
	}
	infoB, err := b.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(infoA, infoB), nil
}
