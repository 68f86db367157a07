package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/internal/userns"
)

func newSet(t *testing.T) Set {
	t.Helper()
	dir := newDir(t)
	testutil.Must(t, ShareDir(dir))
	s := Set{Network: filepath.Join(dir, "net"), IPC: filepath.Join(dir, "ipc"), UTS: filepath.Join(dir, "uts")}
	t.Cleanup(func() {
		testutil.Check(t, s.Unpin())
	})
	return s
}

// alive returns the result of Alive and fails the test on an error.
func alive(t *testing.T, s Set) bool {
	t.Helper()
	alive, err := s.Alive()
	testutil.Check(t, err)
	return alive
}

// inside runs a command in the namespaces of a set.
func inside(t *testing.T, s Set, command ...string) string {
	t.Helper()
	args := append([]string{"--net=" + s.Network, "--ipc=" + s.IPC, "--uts=" + s.UTS}, command...)
	output, err := exec.Command("nsenter", args...).CombinedOutput()
	testutil.Require(t, err == nil, "nsenter %q: %v\n%s", command, err, output)
	return strings.TrimSpace(string(output))
}

// TestSetIsMade checks the namespaces from the inside, and that the node keeps its hostname.
func TestSetIsMade(t *testing.T) {
	s := newSet(t)
	before, err := os.Hostname()
	testutil.Must(t, err)
	s.Hostname = "web-0"
	s.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "7", "kernel.shm_rmid_forced": "1"}
	testutil.Assert(t, !alive(t, s), "the set is alive before Make")
	testutil.Must(t, s.Make(t.Context()))
	testutil.Assert(t, alive(t, s), "not alive")
	for want, command := range map[string][]string{
		"web-0": {"cat", "/proc/sys/kernel/hostname"},
		"7":     {"cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"},
		"1":     {"cat", "/proc/sys/kernel/shm_rmid_forced"},
	} {
		testutil.Equal(t, inside(t, s, command...), want, "%q tells", command)
	}
	testutil.Check(t, Open(s.Network).Do(t.Context(), func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil && lo.Attrs().Flags&net.FlagUp == 0 {
			err = fmt.Errorf("its flags are %v", lo.Attrs().Flags)
		}
		return err
	}), "the loopback interface")
	after, err := os.Hostname()
	testutil.Assert(t, err == nil && after == before, "the node is called %q, %v, and was %q", after, err, before)
	if err := s.Make(t.Context()); !errdefs.IsAlreadyExists(err) || !alive(t, s) {
		t.Errorf("a second Make: %v, and alive is %v", err, alive(t, s))
	}
	for range 2 {
		if err := s.Unpin(); err != nil || alive(t, s) {
			t.Errorf("Unpin: %v, alive is %v", err, alive(t, s))
		}
	}
}

// TestSetWithOnePath makes a set with one path: only this namespace is pinned.
func TestSetWithOnePath(t *testing.T) {
	s := newSet(t)
	s.Network, s.UTS = "", ""
	testutil.Must(t, s.Make(t.Context()))
	entries, err := os.ReadDir(filepath.Dir(s.IPC))
	testutil.Assert(t, err == nil && len(entries) == 1 && alive(t, s),
		"pinned are %v, %v; alive is %v", entries, err, alive(t, s))
}

// TestSetThatCannotBeMadeLeavesNothing gives sysctls that the kernel refuses.
func TestSetThatCannotBeMadeLeavesNothing(t *testing.T) {
	for name, value := range map[string]string{"net.ipv4.nonesuch": "1",
		"net.ipv4.ip_unprivileged_port_start": "many"} {
		s := newSet(t)
		s.Sysctls = map[string]string{name: value}
		err := s.Make(t.Context())
		testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), name),
			"%s=%s: %v", name, value, err)
		entries, err := os.ReadDir(filepath.Dir(s.Network))
		testutil.Assert(t, err == nil && len(entries) == 0, "%s=%s: pins %v are left, %v", name, value, entries, err)
	}
}

// TestSysctlsWithoutAFile lets the program open no more files. The error must not be an ErrInvalidArgument, because the
// sysctl is not at fault.
func TestSysctlsWithoutAFile(t *testing.T) {
	var err error
	withoutFiles(t, func() { err = writeSysctls(map[string]string{"net.ipv4.nonesuch": "1"}) })
	testutil.Assert(t, errors.Is(err, unix.EMFILE) && !errdefs.IsInvalidArgument(err) &&
		strings.Contains(err.Error(), "net.ipv4.nonesuch"), "without a file to open: %v", err)
	err = writeSysctls(map[string]string{"net.ipv4.nonesuch": "1"})
	testutil.Fails(t, err, errdefs.IsInvalidArgument, "with files")
}

// withoutFiles calls do while this program cannot open any file.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var limit unix.Rlimit
	testutil.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	defer func() { testutil.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	do()
}

// TestSetOfAnotherKindIsNotAlive uses the pin of a network namespace for the IPC namespace. It then unmounts a pin but
// keeps its file, as a reboot does.
func TestSetOfAnotherKindIsNotAlive(t *testing.T) {
	s := newSet(t)
	testutil.Must(t, s.Make(t.Context()))
	testutil.Assert(t, !alive(t, (Set{IPC: s.Network})), "a network namespace passes for an IPC namespace")
	testutil.Must(t, unix.Unmount(s.UTS, unix.MNT_DETACH))
	testutil.Assert(t, !alive(t, s), "alive without its UTS namespace")
}

// TestSetThatCannotBeSeen lets the program open no more files: Alive returns an error. If one namespace is certainly
// gone, the set is not alive, whatever state the others have.
func TestSetThatCannotBeSeen(t *testing.T) {
	s := newSet(t)
	testutil.Must(t, s.Make(t.Context()))
	var sees bool
	var err error
	withoutFiles(t, func() { sees, err = s.Alive() })
	testutil.Assert(t, !sees && errors.Is(err, unix.EMFILE), "without a file to open: %v, %v", sees, err)
	testutil.Assert(t, alive(t, s), "not alive afterwards")
	loop := s.IPC + "-loop" // exists but cannot be opened
	testutil.Must(t, os.Symlink(loop, loop))
	sees, err = (Set{IPC: loop}).Alive()
	testutil.Assert(t, !sees && err != nil, "a link to itself: %v, %v", sees, err)
	testutil.Assert(t, !alive(t, Set{Network: s.Network + "-missing", IPC: loop}) &&
		!alive(t, Set{Network: loop, IPC: s.Network}), "alive with a namespace that is gone")
	testutil.Assert(t, !alive(t, Set{Network: filepath.Join(s.UTS, "x")}), "alive below a file")
	testutil.Must(t, os.Remove(loop))
}

// The user namespace of a set owns its other namespaces: root of the user namespace may configure them.
func TestSetOfAUserNamespace(t *testing.T) {
	s := newSet(t)
	s.User = filepath.Join(filepath.Dir(s.IPC), "user")
	s.UIDs, s.GIDs = []userns.Mapping{{HostID: 300000, Size: 1000}}, []userns.Mapping{{HostID: 400000, Size: 1000}}
	t.Cleanup(func() {
		testutil.Check(t, s.Unpin())
	})
	s.Hostname = "web-0"
	s.Sysctls = map[string]string{"net.ipv4.ping_group_range": "0 999", "kernel.shm_rmid_forced": "1",
		"fs.mqueue.msg_max": "11"}
	testutil.Must(t, s.Make(t.Context()))
	testutil.Assert(t, alive(t, s), "not alive")
	script := "id -u; hostname; cat /proc/self/uid_map /proc/sys/net/ipv4/ping_group_range " +
		"/proc/sys/kernel/shm_rmid_forced /proc/sys/fs/mqueue/msg_max; " +
		"hostname root && ip link set lo mtu 1400 && hostname"
	got := inside(t, s, "nsenter", "--user="+s.User, "-S", "0", "-G", "0", "sh", "-c", script)
	want := "0 web-0 0 300000 1000 0 999 1 11 root"
	testutil.Assert(t, strings.Join(strings.Fields(got), " ") == want, "inside: %q, want %q", got, want)
	var stat unix.Stat_t
	err := unix.Stat(s.User, &stat)
	testutil.Assert(t, err == nil && stat.Uid == 0, "the pin is of user %d, %v", stat.Uid, err)
	other := s
	other.Network, other.IPC, other.UTS, other.User = s.Network+"2", s.IPC+"2", s.UTS+"2", s.User+"2"
	other.Sysctls = map[string]string{"net.ipv4.ping_group_range": "0 2147483647"}
	testutil.Fails(t, other.Make(t.Context()), errdefs.IsInvalidArgument, "a group that is not mapped")
	_, err = os.Stat(other.User)
	testutil.Assert(t, err != nil, "a failed Make leaves a pin")
	alone := Set{User: s.User + "3", UIDs: s.UIDs, GIDs: s.GIDs}
	err = alone.Make(t.Context())
	testutil.Assert(t, err == nil && alive(t, alone), "a user namespace alone: %v", err)
	err = alone.Unpin()
	testutil.Assert(t, err == nil && !alive(t, alone), "unpinned: %v", err)
}
