package volumemanager

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRemoveClaim(t *testing.T) {
	claims, disk := t.TempDir(), t.TempDir()
	testutil.WriteFile(t, filepath.Join(claims, "ns", "own", "file"), "")
	testutil.WriteFile(t, filepath.Join(disk, "file"), "")
	testutil.Must(t, os.Symlink(disk, filepath.Join(claims, "ns", "bound")))
	for _, name := range []string{"own", "bound", "missing"} {
		testutil.Must(t, RemoveClaim(claims, "ns", name), name)
	}
	left, err := os.ReadDir(filepath.Join(claims, "ns"))
	testutil.Assert(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
	testutil.Exists(t, filepath.Join(disk, "file"), "the persistent volume")
}

// TestRemoveClaimOfAnotherPath: a name that is not a single path element removes nothing.
func TestRemoveClaimOfAnotherPath(t *testing.T) {
	claims := t.TempDir()
	file := filepath.Join(claims, "ns", "own", "file")
	testutil.WriteFile(t, file, "")
	for _, name := range [][2]string{{"ns", ""}, {"ns", "."}, {"other", "../ns"}, {"ns", "own/file"}, {"", "ns"},
		{"..", filepath.Base(claims)}} {
		testutil.Fails(t, RemoveClaim(claims, name[0], name[1]), errdefs.IsInvalidArgument, "%q", name)
	}
	testutil.Exists(t, file)
}

// A mounted claim stays, even if only a directory in it is mounted, as for a subPath.
func TestRemoveMountedClaim(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	claims, target := t.TempDir(), t.TempDir()
	file := filepath.Join(claims, "ns", "own", "sub", "file")
	testutil.WriteFile(t, file, "")
	for _, source := range []string{"", "sub"} {
		testutil.Must(t, unix.Mount(filepath.Join(claims, "ns", "own", source), target, "", unix.MS_BIND, ""))
		err := RemoveClaim(claims, "ns", "own")
		testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), target), "%v", err)
		testutil.Must(t, unix.Unmount(target, 0))
	}
	testutil.Exists(t, file)
	testutil.Must(t, RemoveClaim(claims, "ns", "own"))
}

// TestMountsOfAProcess: only an ended process has no mounts. Any other error is returned, because a mounted claim could
// be missed.
func TestMountsOfAProcess(t *testing.T) {
	mounts, err := mountsOf("/proc/self")
	testutil.Assert(t, err == nil && len(mounts) > 0, "this process: %v, %v", mounts, err)
	pid, _ := testutil.StartProcess(t, 0)
	testutil.Must(t, unix.Kill(pid, unix.SIGKILL)) // the process stays a zombie until the end of the test
	testutil.Until(t, "a killed process without mounts", func() bool {
		mounts, err := mountsOf(filepath.Join("/proc", strconv.Itoa(pid)))
		testutil.Must(t, err)
		return len(mounts) == 0
	})
	unreadable := t.TempDir()
	mounts, err = mountsOf(unreadable)
	testutil.Assert(t, err == nil && len(mounts) == 0, "a process without the file: %v, %v", mounts, err)
	testutil.Must(t, os.Symlink("mountinfo", filepath.Join(unreadable, "mountinfo")))
	_, err = mountsOf(unreadable)
	testutil.Assert(t, errors.Is(err, unix.ELOOP), "mounts that cannot be read: %v", err)
}

// A file system that is mounted in a claim has files that are not the claim's.
func TestRemoveClaimWithAMountInIt(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	claims, other := t.TempDir(), t.TempDir()
	file, disk := filepath.Join(other, "file"), filepath.Join(claims, "ns", "own", "disk")
	testutil.WriteFile(t, file, "")
	testutil.Must(t, os.MkdirAll(disk, 0o755))
	testutil.Must(t, unix.Mount(other, disk, "", unix.MS_BIND, ""))
	err := RemoveClaim(claims, "ns", "own")
	testutil.Must(t, unix.Unmount(disk, 0))
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), disk), "%v", err)
	testutil.Exists(t, file)
}
