package nodelock

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRootHasOneProcessAndOneOwner: a locked directory is refused to other processes until its release, and to other
// owners for ever.
func TestRootHasOneProcessAndOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "root")
	root, err := LockRoot(dir, "ann")
	testutil.Must(t, err)
	for _, owner := range []string{"ann", "bob"} {
		if _, err := LockRoot(dir, owner); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s while it is locked: %v", owner, err)
		}
	}
	testutil.Must(t, root.Release())
	_, err = LockRoot(dir, "bob")
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "--owner ann"),
		"another owner: %v", err)
	again, err := LockRoot(dir, "ann")
	testutil.Must(t, err)
	testutil.Must(t, again.Release())
}

// TestLockOfARemovedDirectory: a lock counts only while its file has a path. Otherwise a process that opened the file
// before RemoveAll would share the directory with the next process.
func TestLockOfARemovedDirectory(t *testing.T) {
	dir := t.TempDir()
	file, err := lockIn(dir)
	testutil.Must(t, err)
	testutil.Assert(t, stands(file), "a new lock does not count")
	root := &Root{dir: dir, file: file}
	testutil.Must(t, root.RemoveAll())
	testutil.Assert(t, !stands(file), "a removed lock counts")
	next, err := LockRoot(dir, "ann")
	testutil.Must(t, err)
	testutil.Assert(t, !stands(file), "the next process's lock counts for this one")
	testutil.Must(t, next.Release())
	testutil.Must(t, root.Release())
}

// TestRootThatIsAMountPoint: RemoveAll leaves a mount point of the user in place.
func TestRootThatIsAMountPoint(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	dir := t.TempDir()
	testutil.Must(t, unix.Mount("test", dir, "tmpfs", 0, ""))
	defer func() { testutil.Check(t, unix.Unmount(dir, 0)) }()
	root, err := LockRoot(dir, "ann")
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(dir, "pods", "file"), "")
	testutil.Must(t, root.RemoveAll())
	left, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(left) == 0, "left over: %v, %v", left, err)
	testutil.Must(t, root.Release())
}

// TestKubeletIsFound: a listener on a kubelet's socket counts as a kubelet. A socket without a listener does not.
func TestKubeletIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	candidates := listeners("unix", path)
	address, found := firstListener(t.Context(), candidates)
	testutil.Assert(t, !found, "without a listener it found %s", address)
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testutil.Must(t, err)
	socket.SetUnlinkOnClose(false)
	address, found = firstListener(t.Context(), candidates)
	testutil.Assert(t, found && address == path, "found %q", address)
	testutil.Must(t, socket.Close())
	address, found = firstListener(t.Context(), candidates)
	testutil.Assert(t, !found, "after the close it found %s", address)
}

// TestKubeletPortOfANodeAddress: a listener on a kubelet's port counts on each of the node's addresses.
func TestKubeletPortOfANodeAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.78:0")
	testutil.Must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	testutil.Must(t, err)
	err = noKubelet(t.Context(), []string{"127.0.0.79", "127.0.0.78"}, port)
	testutil.Require(t, errdefs.IsFailedPrecondition(err), "got %v", err)
	for _, want := range []string{listener.Addr().String(), "stop the kubelet", "--beside-kubelet"} {
		testutil.Assert(t, strings.Contains(err.Error(), want), "the error lacks %q: %v", want, err)
	}
}

// TestForeignRootDirectoryIsRefused: a directory with other files is refused and not changed.
func TestForeignRootDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "work")
	testutil.Must(t, os.WriteFile(file, nil, 0o600))
	if _, err := LockWholeRoot(dir, "ann"); !errdefs.IsFailedPrecondition(err) || errors.Is(err, ErrInUse) {
		t.Errorf("a directory with another file: %v", err)
	}
	entries, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(entries) == 1, "the directory has %v, %v", entries, err)
	testutil.Must(t, os.Remove(file))
	for range 2 {
		root, err := LockWholeRoot(dir, "ann")
		testutil.Must(t, err)
		_, err = LockWholeRoot(dir, "ann")
		testutil.Assert(t, errors.Is(err, ErrInUse), "while it is locked: %v", err)
		testutil.Must(t, os.WriteFile(file, nil, 0o600))
		testutil.Must(t, root.Release())
	}
	_, err = LockWholeRoot(dir, "bob")
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && !errors.Is(err, ErrInUse), "another owner: %v", err)
	root, err := LockWholeRoot(dir, "ann")
	testutil.Must(t, err)
	testutil.Must(t, root.RemoveAll())
	testutil.Gone(t, dir)
}

// TestLockWholeRootDuringItsRemoval: a root directory that its owner removes is never taken for another program's.
func TestLockWholeRootDuringItsRemoval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	for range 300 {
		root, err := LockWholeRoot(dir, "ann")
		testutil.Must(t, err)
		removed := make(chan error, 1)
		go func() { removed <- root.RemoveAll() }()
		for err = ErrInUse; errors.Is(err, ErrInUse); {
			var next *Root
			if next, err = LockWholeRoot(dir, "ann"); err == nil {
				err = next.RemoveAll()
			}
		}
		testutil.Must(t, errors.Join(err, <-removed, root.Release()))
		testutil.Assert(t, Removed(dir), "the directory is left")
	}
}
