package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPinOutlivesItsProcess(t *testing.T) {
	dir := newDir(t)
	pid, end := startPod(t)
	want := podNamespace(t, pid)
	h := mustPin(t, pid, dir, "pod")
	testutil.Assert(t, h.path == filepath.Join(dir, "pod"), "the pin is %s", h.path)
	same, err := h.SameAs(pid)
	testutil.Assert(t, err == nil && same, "SameAs the pinned process is %v, %v", same, err)
	same, err = h.SameAs(os.Getpid())
	testutil.Assert(t, err == nil && !same, "SameAs this process is %v, %v", same, err)
	end()
	testutil.Require(t, h.Alive(), "the namespace died with its process")
	_, err = h.SameAs(pid)
	testutil.Fails(t, err, errdefs.IsNotFound, "SameAs a gone process")
	// The next start of the program knows only the path.
	h = Open(h.path)
	var got string
	testutil.Must(t, h.Do(t.Context(), func() error { got = namespaceOf(t, "/proc/thread-self/ns/net"); return nil }))
	testutil.Assert(t, got == want, "the pin leads to %s, want %s", got, want)
	for range 2 {
		testutil.Must(t, h.Unpin())
		testutil.Assert(t, !h.Alive(), "alive after Unpin")
		requireFiles(t, dir)
	}
	left := mounts(t, "self", h.path)
	testutil.Assert(t, len(left) == 0, "still mounted: %v", left)
}

func TestPinIsIdempotent(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	first := mustPin(t, pid, dir, "pod")
	// There are two mounts if the directory is on a shared mount. The shared mount and the directory's own are peers,
	// and a pin shows up on both.
	want := len(mounts(t, "self", first.path))
	testutil.Equal(t, mustPin(t, pid, dir, "pod"), first, "the second pin")
	testutil.Equal(t, len(mounts(t, "self", first.path)), want, "mounts on the pin")
	other, _ := startPod(t)
	_, err := Pin(other, dir, "pod")
	testutil.Assert(t, errdefs.IsAlreadyExists(err),
		"another namespace under the same name returned %v, want AlreadyExists", err)
	same, err := first.SameAs(pid)
	testutil.Assert(t, err == nil && same, "the first pin now leads elsewhere (%v, %v)", same, err)
}

func TestPinTakesOverAFileLeftByACrash(t *testing.T) {
	dir := newDir(t)
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	left := filepath.Join(dir, "pod")
	testutil.Must(t, os.WriteFile(left, nil, 0o444))
	testutil.Require(t, !Open(left).Alive(), "a plain file counts as alive")
	pid, _ := startPod(t)
	testutil.Assert(t, mustPin(t, pid, dir, "pod").Alive(), "not pinned")
}

func TestPinRefuses(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	gone, end := startPod(t)
	end()
	mustPin(t, pid, dir, "first")
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("text"), 0o644))
	testutil.Must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o755))
	tests := map[string]struct {
		pid  int
		name string
		dir  string
		want func(error) bool
	}{
		"pid 0":              {0, "pod", dir, errdefs.IsInvalidArgument},
		"negative pid":       {-1, "pod", dir, errdefs.IsInvalidArgument},
		"gone process":       {gone, "pod", dir, errdefs.IsNotFound},
		"own namespace":      {os.Getpid(), "pod", dir, errdefs.IsFailedPrecondition},
		"empty name":         {pid, "", dir, errdefs.IsInvalidArgument},
		"dot":                {pid, ".", dir, errdefs.IsInvalidArgument},
		"dot dot":            {pid, "..", dir, errdefs.IsInvalidArgument},
		"path as name":       {pid, "../pod", dir, errdefs.IsInvalidArgument},
		"NUL in the name":    {pid, "a\x00b", dir, errdefs.IsInvalidArgument},
		"too long name":      {pid, strings.Repeat("x", 256), dir, errdefs.IsInvalidArgument},
		"relative directory": {pid, "pod", "netns", errdefs.IsInvalidArgument},
		"file with content":  {pid, "notes", dir, errdefs.IsFailedPrecondition},
		"directory as pin":   {pid, "directory", dir, errdefs.IsFailedPrecondition},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := Pin(tt.pid, tt.dir, tt.name)
			testutil.Assert(t, tt.want(err), "Pin returned %v, %v", h, err)
			requireFiles(t, dir, "directory", "first", "notes")
		})
	}
}

// The mount is the step that can fail after the file has been made.
func TestFailedPinLeavesNothing(t *testing.T) {
	dir := newDir(t)
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	pid, _ := startPod(t)
	ns, err := openProcess(pid)
	testutil.Must(t, err)
	defer ns.Close()
	osthread.Run(func() { // the thread ends with the function, so it may lose its rights
		if err := dropMountRights(); err != nil {
			t.Error(err)
			return
		}
		testutil.FailsWith(t, pin(ns, filepath.Join(dir, "pod")), unix.EPERM, "pin without the right to mount")
	})
	requireFiles(t, dir)
}

func TestDirIsSharedOnce(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := Pin(pid, dir, fmt.Sprint("pod", i))
			testutil.Assert(t, err == nil, "Pin: %v", err)
		})
	}
	wg.Wait()
	table := mounts(t, "self", dir)
	testutil.Assert(t, len(table) == 1 && strings.Contains(table[0], " shared:"),
		"the directory's mounts are %q, want one shared mount", table)
	for i := range 8 {
		testutil.Assert(t, Open(filepath.Join(dir, fmt.Sprint("pod", i))).Alive(), "pin %d is hidden", i)
	}
}

// Two programs that pin the same name at the same time may both succeed; then one Unpin must be enough.
func TestConcurrentPinsOfOneName(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := Pin(pid, dir, "pod")
			testutil.Assert(t, err == nil, "Pin: %v", err)
		})
	}
	wg.Wait()
	h := Open(filepath.Join(dir, "pod"))
	same, err := h.SameAs(pid)
	testutil.Assert(t, err == nil && same, "SameAs is %v, %v", same, err)
	testutil.Check(t, h.Unpin())
	requireFiles(t, dir)
}

func TestOtherMountNamespacesFollow(t *testing.T) {
	dir := newDir(t)
	pid, _ := startPod(t)
	mustPin(t, pid, dir, "early")
	other, _ := testutil.StartProcess(t, unix.CLONE_NEWNS)
	h := mustPin(t, pid, dir, "late")
	n := len(mounts(t, fmt.Sprint(other), h.path))
	testutil.Assert(t, n != 0, "the other mount namespace does not see a later pin")
	testutil.Must(t, h.Unpin())
	testutil.Assert(t, len(mounts(t, fmt.Sprint(other), h.path)) == 0,
		"the other mount namespace keeps the namespace alive after Unpin")
}

func TestPinWaitsForTheLockOfTheDir(t *testing.T) {
	dir := newDir(t)
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	unlock, err := lockDir(dir, time.Second)
	testutil.Must(t, err)
	_, err = lockDir(dir, 30*time.Millisecond)
	testutil.Fails(t, err, errdefs.IsUnavailable, "a held lock")
	time.AfterFunc(50*time.Millisecond, unlock)
	pid, _ := startPod(t)
	testutil.Assert(t, mustPin(t, pid, dir, "pod").Alive(), "not pinned")
}
