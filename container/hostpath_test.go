package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// kube-flannel mounts the host path /run/flannel without a type. The directory is missing after a reboot.
func TestMissingHostPathIsMade(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	missing, private, file := filepath.Join(n.dir, "run", "flannel"), filepath.Join(n.dir,
		"private"), filepath.Join(n.dir, "file")
	testutil.Must(t, errors.Join(os.Mkdir(private, 0o700), os.WriteFile(file, []byte("as it was"), 0o600)))
	config := n.config("sleep")
	for i, path := range []string{missing, private, file} {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{HostPath: path, ContainerPath: fmt.Sprintf("/m%d", i)})
	}
	n.create(pod, config)
	for path, want := range map[string]os.FileMode{missing: os.ModeDir | 0o755, private: os.ModeDir | 0o700,
		file: 0o600} {
		info, err := os.Stat(path)
		testutil.Assert(t, err == nil && info.Mode() == want, "%s: %v, %v; want the mode %v", path, info, err, want)
	}
}

// The container's mount is the host directory that Create made: a file that the container writes appears there.
func TestRigMissingHostPathIsMade(t *testing.T) {
	n := newRigNode(t)
	missing := filepath.Join(n.dir, "run", "flannel")
	config := n.config("sh", "-c", "echo 10.244.0.0/16 > /run/flannel/subnet.env")
	config.Mounts = []*runtimeapi.Mount{{HostPath: missing, ContainerPath: "/run/flannel"}}
	id := n.started(n.pod(), config)
	n.waitState(id, exited)
	testutil.Holds(t, filepath.Join(missing, "subnet.env"), "10.244.0.0/16\n")
}

func TestHostPathThatCannotBe(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	file, dangling, loop := filepath.Join(n.dir, "file"), filepath.Join(n.dir, "dangling"), filepath.Join(n.dir, "loop")
	target := filepath.Join(n.dir, "nothing")
	testutil.Must(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(target, dangling), os.Symlink(loop, loop)))
	for path, text := range map[string]string{
		filepath.Join(file, "below"):        file + " is not a directory",
		filepath.Join(file, "far", "below"): file + " is not a directory",
		dangling:                            dangling + " is a link to " + target,
		filepath.Join(dangling, "below"):    dangling + " is a link to " + target,
		loop:                                "symbolic links",
	} {
		config := n.config("sleep")
		config.Mounts = []*runtimeapi.Mount{{HostPath: path, ContainerPath: "/m"}}
		_, err := n.Create(t.Context(), pod, config, nil)
		testutil.Assert(t, errdefs.IsInvalidArgument(err) &&
			strings.Contains(err.Error(), "config.mounts[0].host_path") && strings.Contains(err.Error(), text),
			"%s: %v, want %q", path, err, text)
	}
	n.wantNothing(pod)
	_, err := os.Lstat(target)
	testutil.Fails(t, err, os.IsNotExist, "the link's target was made")
}

// deadFileSystem mounts a file system whose server never answers, like a dead NFS server.
func deadFileSystem(t *testing.T, paths *hostPaths) string {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if os.Getuid() != 0 || err != nil {
		t.Skipf("needs root and /dev/fuse to mount a file system that hangs (%v)", err)
	}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := syscall.Mount("dead", dir, "fuse", 0, options); err != nil {
		device.Close()
		t.Skipf("cannot mount a file system that hangs: %v", err)
	}
	t.Cleanup(func() {
		device.Close() // the kernel fails all waiting calls
		testutil.Until(t, "no call waits", func() bool {
			paths.mu.Lock()
			defer paths.mu.Unlock()
			return len(paths.pending) == 0 // a pending call would make its directory after the unmount
		})
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	return dir
}

// A host path that hangs fails the request in bounded time, and its retries do not hold more and more threads.
func TestHostPathOnADeadFileSystem(t *testing.T) {
	const retries = 40
	n, _ := newFakeNode(t)
	pod := n.pod()
	config := n.config("sleep")
	config.Mounts = []*runtimeapi.Mount{
		{HostPath: filepath.Join(deadFileSystem(t, n.hostPaths), "export"), ContainerPath: "/m"}}
	n.hostPaths.patience = 50 * time.Millisecond
	before := threads(t)
	for range retries {
		failed := testutil.Try(func() (string, error) { return n.Create(context.Background(), pod, config, nil) })
		err := testutil.Receive(t, failed, "Create hangs")
		testutil.Require(t, errdefs.IsUnavailable(err) &&
			strings.Contains(err.Error(), "config.mounts[0].host_path") &&
			strings.Contains(err.Error(), "does not answer"), "Create: %v", err)
	}
	now := threads(t)
	testutil.Assert(t, now <= before+retries/2, "%d threads after %d retries, %d before", now, retries, before)
	// The caller's context may end before the patience does.
	n.hostPaths.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := n.Create(ctx, pod, config, nil)
	testutil.Assert(t, err != nil && ctx.Err() != nil, "Create: %v", err)
	n.wantNothing(pod)
	n.create(pod, n.config("sleep")) // a container without that path is created
}

func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	testutil.Must(t, err)
	return len(entries)
}

// Paths on a dead file system, also through a link, do not delay a path on another file system.
func TestHostPathsThatHangHoldUpNoOthers(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	dead, link := deadFileSystem(t, n.hostPaths), filepath.Join(t.TempDir(), "link")
	testutil.Must(t, os.Symlink(dead, link))
	n.hostPaths.patience = time.Millisecond
	before := threads(t)
	for _, dir := range []string{dead, link} {
		for i := range 70 {
			config := n.config("sleep")
			config.Mounts = []*runtimeapi.Mount{{HostPath: filepath.Join(dir, fmt.Sprint(i)), ContainerPath: "/m"}}
			_, err := n.Create(t.Context(), pod, config, nil)
			testutil.Require(t, errdefs.IsUnavailable(err), "Create: %v", err)
		}
	}
	now := threads(t)
	testutil.Assert(t, now <= before+maxHanging+10, "%d threads, %d before", now, before)
	n.hostPaths.patience = longRun / 2
	config := n.config("sleep")
	config.Mounts = []*runtimeapi.Mount{{HostPath: filepath.Join(n.dir, "alive"), ContainerPath: "/m"}}
	n.create(pod, config)
}

// If calls that hang have taken all seats of a file system, more requests for it fail. The error names it. Requests
// succeed again when it answers.
func TestManyHostPathsThatHang(t *testing.T) { synctest.Test(t, testManyHostPathsThatHang) }

func testManyHostPathsThatHang(t *testing.T) {
	answer := make(chan struct{})
	paths := newHostPaths()
	paths.patience = time.Millisecond
	mounts := mountPoints{"/", "/hung", "/hung/deeper"}
	var under atomic.Int32
	paths.ensure = func(path string) error {
		if strings.HasPrefix(path, "/hung/") {
			under.Add(1)
			<-answer
		}
		return nil
	}
	for i := range 2 * maxHanging {
		err := paths.require(t.Context(), fmt.Sprint("/hung/", i), mounts)
		testutil.Require(t, errdefs.IsUnavailable(err), "require: %v", err)
	}
	testutil.Until(t, "all seats are taken", func() bool { return under.Load() == maxHanging })
	err := paths.require(t.Context(), "/hung/late", mounts)
	testutil.Assert(t, errdefs.IsUnavailable(err) &&
		strings.Contains(err.Error(), "other paths on /hung do not answer"), "one too many: %v", err)
	paths.patience = 5 * time.Second
	testutil.Check(t, paths.require(t.Context(), "/hungry", mounts), "a path on another file system")
	close(answer)
	for _, path := range []string{"/hung/1", "/hung/deeper/1"} {
		err := paths.require(t.Context(), path, mounts)
		testutil.Assert(t, err == nil, "after they answer, %s: %v", path, err)
	}
	testutil.Until(t, "all seats are given back", func() bool {
		paths.seats.mu.Lock()
		defer paths.seats.mu.Unlock()
		return len(paths.seats.taken) == 0
	})
}

// During a short stall, many requests at once all succeed in the end. They hold no more threads than the bound.
func TestManyHostPathsDuringAShortStall(t *testing.T) {
	answer := make(chan struct{})
	paths := newHostPaths()
	var now, most atomic.Int32
	paths.ensure = func(string) error {
		if n := now.Add(1); n > maxHanging {
			most.Store(n)
		}
		defer now.Add(-1)
		<-answer
		return nil
	}
	const requests = 3 * maxHanging
	failed := make(chan error, requests)
	for i := range requests {
		go func() { failed <- paths.require(t.Context(), fmt.Sprint("/stalled/", i), nil) }()
	}
	time.AfterFunc(200*time.Millisecond, func() { close(answer) })
	for range requests {
		testutil.Must(t, <-failed)
	}
	n := most.Load()
	testutil.Assert(t, n <= 0, "%d calls were under way, want at most %d", n, maxHanging)
}
