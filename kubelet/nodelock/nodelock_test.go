package nodelock

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

// TestRootIsOneProcesssAndOneOwners locks a directory, which fails for everybody else until it is released, and for
// another owner for ever.
func TestRootIsOneProcesssAndOneOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "root")
	root, err := LockRoot(dir, "ann")
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"ann", "bob"} {
		if _, err := LockRoot(dir, owner); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s while it is locked: %v", owner, err)
		}
	}
	if err := root.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := LockRoot(dir, "bob"); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "--owner ann") {
		t.Errorf("another owner: %v", err)
	}
	again, err := LockRoot(dir, "ann") // bob's failure left no lock
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestKubeletIsFound finds who listens where a kubelet would, and takes a socket that a dead one left for nothing.
func TestKubeletIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	candidates := listeners("unix", path)
	if trace, found := firstListener(t.Context(), candidates); found {
		t.Errorf("nothing is there, found %s", trace)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetUnlinkOnClose(false)
	if trace, found := firstListener(t.Context(), candidates); !found || !strings.Contains(trace, path) {
		t.Errorf("found %q", trace)
	}
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	if trace, found := firstListener(t.Context(), candidates); found {
		t.Errorf("nobody listens any more, found %s", trace)
	}
}

// TestKubeletPortOfANodeAddress is taken for a kubelet's, on whichever of the node's addresses it is.
func TestKubeletPortOfANodeAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.78:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = noKubelet(t.Context(), []string{"127.0.0.79", "127.0.0.78"}, port)
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "--beside-kubelet") {
		t.Errorf("got %v", err)
	}
}

// TestWholeRootIsOnesOwn refuses a directory with anything of somebody else's in it, and leaves it as it was.
func TestWholeRootIsOnesOwn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "work")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LockWholeRoot(dir, "ann"); !errdefs.IsFailedPrecondition(err) || errors.Is(err, ErrInUse) {
		t.Errorf("a directory in use by a person: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("it has %v, %v", entries, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is the owner's already
		root, err := LockWholeRoot(dir, "ann")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LockWholeRoot(dir, "ann"); !errors.Is(err, ErrInUse) {
			t.Errorf("while it is locked: %v", err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := root.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LockWholeRoot(dir, "bob"); !errdefs.IsFailedPrecondition(err) || errors.Is(err, ErrInUse) {
		t.Errorf("another owner: %v", err)
	}
	root, err := LockWholeRoot(dir, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.RemoveAll(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
