package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Set is the namespaces of a pod that no process holds: each is alive while it is pinned. A namespace without a path is
// the node's.
type Set struct {
	// Network, IPC and UTS are the paths of the pins.
	Network, IPC, UTS string
	// Hostname is set in the UTS namespace, and Sysctls in the network and the IPC namespace.
	Hostname string
	Sysctls  map[string]string
}

// pinned is one namespace of a set.
type pinned struct {
	flag int
	// file is its name in /proc/PID/ns.
	file, path string
}

func (s Set) all() []pinned {
	all := []pinned{
		{unix.CLONE_NEWNET, "net", s.Network}, {unix.CLONE_NEWIPC, "ipc", s.IPC}, {unix.CLONE_NEWUTS, "uts", s.UTS},
	}
	return slices.DeleteFunc(all, func(p pinned) bool { return p.path == "" })
}

// Make makes the namespaces, with the loopback interface up, and pins them in directories that are there (see
// [ShareDir]). A failed Make leaves no pin.
//
// It returns errdefs.ErrAlreadyExists when there is a file in a pin's place, and errdefs.ErrInvalidArgument, naming it,
// for a sysctl that the kernel does not have or whose value it refuses.
func (s Set) Make(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range s.all() {
		if err := validate(filepath.Dir(p.path), filepath.Base(p.path)); err != nil {
			return err
		}
		if _, err := os.Lstat(p.path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is in the place of a new pin: %w", p.path, errdefs.ErrAlreadyExists), err)
		}
	}
	err := errors.New("the making of namespaces ended its goroutine")
	// The thread is not unlocked: it ends, as no other goroutine may run in the new namespaces.
	onOwnThread(func() { err = s.makeHere() })
	if err != nil {
		return errors.Join(err, s.Unpin())
	}
	return nil
}

// makeHere moves its thread into new namespaces.
func (s Set) makeHere() error {
	flags := 0
	for _, p := range s.all() {
		flags |= p.flag
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("making the pod's namespaces: %w", err)
	}
	if s.UTS != "" && s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("setting the pod's host name: %w", err)
		}
	}
	if s.Network != "" {
		if err := raiseLoopback(); err != nil {
			return err
		}
	}
	if err := writeSysctls(s.Sysctls); err != nil {
		return err
	}
	for _, p := range s.all() {
		if err := pinOwn(p); err != nil {
			return err
		}
	}
	return nil
}

func raiseLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("raising the loopback interface: %w", err)
	}
	return nil
}

// writeSysctls sets what belongs to the namespaces of the calling thread, in the order of the names.
func writeSysctls(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := os.WriteFile(sysctlFile(name), []byte(values[name]), 0); err != nil {
			return fmt.Errorf("sysctl %s=%q: %w: %w", name, values[name], err, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// sysctlFile is where a sysctl is, in whose name dots and slashes change places.
func sysctlFile(name string) string {
	swap := strings.NewReplacer(".", "/", "/", ".")
	return filepath.Join("/proc/sys", filepath.Join("/", swap.Replace(name)))
}

// pinOwn pins a namespace of the calling thread.
func pinOwn(p pinned) error {
	ns, err := os.Open("/proc/thread-self/ns/" + p.file)
	if err != nil {
		return err
	}
	defer ns.Close()
	return pin(ns, p.path)
}

// Alive reports whether all namespaces of the set are pinned.
func (s Set) Alive() bool {
	for _, p := range s.all() {
		ns, err := openKind(p.path, p.flag)
		if err != nil {
			return false
		}
		ns.Close()
	}
	return true
}

// Unpin lets the namespaces go, as Handle.Unpin does for one. It is idempotent.
func (s Set) Unpin() error {
	var errs []error
	for _, p := range s.all() {
		errs = append(errs, Open(p.path).Unpin())
	}
	return errors.Join(errs...)
}
