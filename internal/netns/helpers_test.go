package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// requireRoot skips a test that makes namespaces unless it runs as root.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make and mount network namespaces")
	}
}

// startPod starts a process in a network namespace of its own and returns its pid and a function that ends it.
func startPod(t *testing.T) (pid int, end func()) {
	t.Helper()
	return testutil.StartProcess(t, unix.CLONE_NEWNET)
}

// newDir returns a directory for pins that does not exist yet; all mounts in it are gone after the test.
func newDir(t *testing.T) string {
	t.Helper()
	requireRoot(t)
	dir := filepath.Join(t.TempDir(), "netns")
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	return dir
}

func mustPin(t *testing.T, pid int, dir, name string) Handle {
	t.Helper()
	h, err := Pin(pid, dir, name)
	testutil.Require(t, err == nil, "Pin: %v", err)
	return h
}

// requireFiles checks which files a directory holds.
func requireFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	testutil.Assert(t, strings.Join(got, "/") == strings.Join(want, "/"), "%s holds %q, want %q", dir, got, want)
}

// mounts returns the lines of a process's mount table for a mount point.
func mounts(t *testing.T, pid, mountPoint string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(testutil.ReadFile(t, filepath.Join("/proc", pid, "mountinfo"))) {
		if fields := strings.Fields(line); fields[4] == mountPoint {
			found = append(found, line)
		}
	}
	return found
}

// namespaceOf returns the target of a namespace's link, "net:[…]".
func namespaceOf(t *testing.T, link string) string {
	t.Helper()
	ns, err := os.Readlink(link)
	testutil.Must(t, err)
	return ns
}

func podNamespace(t *testing.T, pid int) string {
	t.Helper()
	return namespaceOf(t, fmt.Sprintf("/proc/%d/ns/net", pid))
}

// threadsIn counts the threads of this process in a namespace.
func threadsIn(t *testing.T, ns string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/task/*/ns/net")
	testutil.Must(t, err)
	n := 0
	for _, link := range links {
		// A thread may have ended meanwhile.
		if got, err := os.Readlink(link); err == nil && got == ns {
			n++
		}
	}
	return n
}

// dropMountRights takes CAP_SYS_ADMIN, which mounting and setns need, from the calling thread for good.
func dropMountRights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	caps[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	caps[0].Permitted &^= 1 << unix.CAP_SYS_ADMIN
	return unix.Capset(&header, &caps[0])
}
