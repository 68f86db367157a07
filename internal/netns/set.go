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
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/userns"
)

// Set has the namespaces of a pod. No process holds them: each is alive while it is pinned. If a path is empty, the pod
// uses the node's namespace of this kind.
type Set struct {
	// Network, IPC, UTS and User are the paths of the pins. If the set has a user namespace, it owns the other
	// namespaces.
	Network, IPC, UTS, User string
	// UIDs and GIDs are the mappings of the user namespace. The first mapping of each begins with id 0.
	UIDs, GIDs []userns.Mapping
	// Hostname is set in the UTS namespace, and Sysctls in the network and the IPC namespace.
	Hostname string
	Sysctls  map[string]string
}

// pinned is one namespace of a set.
type pinned struct {
	flag int
	// file is the namespace's name in /proc/PID/ns.
	file, path string
}

func (s Set) all() []pinned {
	all := []pinned{
		{unix.CLONE_NEWNET, "net", s.Network}, {unix.CLONE_NEWIPC, "ipc", s.IPC}, {unix.CLONE_NEWUTS, "uts", s.UTS},
		{unix.CLONE_NEWUSER, "user", s.User},
	}
	return slices.DeleteFunc(all, func(p pinned) bool { return p.path == "" })
}

// Make makes the namespaces, with the loopback interface up, and pins them in existing directories (see [ShareDir]). A
// failed Make leaves no pin.
//
// It returns errdefs.ErrAlreadyExists for a file in a pin's place. It returns errdefs.ErrInvalidArgument with the
// sysctl's name if the kernel lacks the sysctl or refuses its value. A value with ids that the user namespace does not
// map causes the same error. If the node is the reason, such as too many open files, the error has no type.
func (s Set) Make(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range s.all() {
		if err := validate(filepath.Dir(p.path), filepath.Base(p.path)); err != nil {
			return err
		}
		if _, err := os.Lstat(p.path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("the new pin needs the path %s: %w", p.path, errdefs.ErrAlreadyExists), err)
		}
	}
	// The thread ends and is never unlocked, so that no other goroutine runs in the new namespaces.
	if err := osthread.Do(s.makeHere); err != nil {
		return errors.Join(err, s.Unpin())
	}
	return nil
}

// makeHere moves its thread into the new namespaces, except the user namespace.
func (s Set) makeHere() error {
	files := func(kind string) string { return "/proc/thread-self/ns/" + kind }
	if s.User == "" {
		if err := unix.Unshare(s.flags()); err != nil {
			return fmt.Errorf("making the pod's namespaces: %w", err)
		}
		return s.furnish(files, writeSysctls)
	}
	child, err := userns.Make(s.UIDs, s.GIDs, uintptr(s.flags()&^unix.CLONE_NEWUSER))
	if err != nil {
		return err
	}
	defer child.Close()
	for _, p := range s.all() {
		if p.flag == unix.CLONE_NEWUSER {
			continue
		}
		if err := enter(child.Path(p.file), p.flag); err != nil {
			return err
		}
	}
	return s.furnish(child.Path, func(sysctls map[string]string) error {
		sysctls, err := mapSysctls(sysctls, s.GIDs)
		if err != nil {
			return err
		}
		// The kernel lets only root of the owning user namespace write an IPC namespace's sysctls.
		return userns.ActAs(s.UIDs[0].HostID, s.GIDs[0].HostID, func() error { return writeSysctls(sysctls) })
	})
}

func (s Set) flags() int {
	flags := 0
	for _, p := range s.all() {
		flags |= p.flag
	}
	return flags
}

// enter moves the calling thread into a namespace.
func enter(path string, kind int) error {
	ns, err := openKind(path, kind)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), kind); err != nil {
		return fmt.Errorf("entering the pod's %s namespace: %w", kindNames[kind], err)
	}
	return nil
}

// furnish sets up the calling thread's namespaces and pins all namespaces of the set. files returns the file of a
// namespace to pin, by its name in /proc/PID/ns. write sets the sysctls.
func (s Set) furnish(files func(kind string) string, write func(map[string]string) error) error {
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
	if err := write(s.Sysctls); err != nil {
		return err
	}
	for _, p := range s.all() {
		if err := pinFile(files(p.file), p.path); err != nil {
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

// SetSysctls sets sysctls of the network namespace. It fails as [Set.Make] and [Handle.Do] do.
func (h Handle) SetSysctls(ctx context.Context, values map[string]string) error {
	return h.Do(ctx, func() error { return writeSysctls(values) })
}

// writeSysctls sets sysctls of the calling thread's namespaces, in the order of their names.
func writeSysctls(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		err := os.WriteFile(sysctlFile(name), []byte(values[name]), 0)
		if err == nil {
			continue
		}
		err = fmt.Errorf("sysctl %s=%q: %w", name, values[name], err)
		if !isOfNode(err) {
			err = fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
		}
		return err
	}
	return nil
}

// isOfNode reports whether the node, and not the request, is the reason for a failed write: it lacks a resource, or its
// /proc/sys cannot be written.
func isOfNode(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EROFS, unix.EIO},
		func(reason error) bool { return errors.Is(err, reason) })
}

// pingGroups is the sysctl whose value has ids. The kernel reads them in the user namespace of the writer.
const pingGroups = "net.ipv4.ping_group_range"

// mapSysctls returns the values for a writer outside of the user namespace.
func mapSysctls(values map[string]string, gids []userns.Mapping) (map[string]string, error) {
	value, found := values[pingGroups]
	if !found {
		return values, nil
	}
	var mapped []string
	for _, field := range strings.Fields(value) {
		inside, err := strconv.Atoi(field)
		i := slices.IndexFunc(gids, func(m userns.Mapping) bool {
			return inside >= m.ContainerID && inside-m.ContainerID < m.Size
		})
		if err != nil || i < 0 {
			return nil, fmt.Errorf("sysctl %s=%q: the pod's user namespace maps no group %s: %w", pingGroups, value,
				field, errdefs.ErrInvalidArgument)
		}
		mapped = append(mapped, strconv.Itoa(inside-gids[i].ContainerID+gids[i].HostID))
	}
	outside := maps.Clone(values)
	outside[pingGroups] = strings.Join(mapped, " ")
	return outside, nil
}

// sysctlFile returns the path of a sysctl. A dot in the sysctl's name is a slash in the path, and a slash is a dot.
func sysctlFile(name string) string {
	swap := strings.NewReplacer(".", "/", "/", ".")
	return filepath.Join("/proc/sys", filepath.Join("/", swap.Replace(name)))
}

// pinFile pins the namespace of a file such as /proc/PID/ns/net.
func pinFile(file, path string) error {
	ns, err := os.Open(file)
	if err != nil {
		return err
	}
	defer ns.Close()
	return pin(ns, path)
}

// Alive reports whether all namespaces of the set are pinned. If it returns an error, the answer is unknown: no
// namespace is certainly gone, but one could not be opened. A possible reason is that this program has too many files
// open.
func (s Set) Alive() (bool, error) {
	var unseen error
	for _, p := range s.all() {
		ns, err := openKind(p.path, p.flag)
		switch {
		case err == nil:
			ns.Close()
		case errdefs.IsNotFound(err), errdefs.IsFailedPrecondition(err):
			return false, nil
		default:
			unseen = errors.Join(unseen, err)
		}
	}
	return unseen == nil, unseen
}

// Unpin unpins each namespace of the set, as [Handle.Unpin] does. It is idempotent.
func (s Set) Unpin() error {
	var errs []error
	for _, p := range s.all() {
		errs = append(errs, Open(p.path).Unpin())
	}
	return errors.Join(errs...)
}
