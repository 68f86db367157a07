package volumemanager

import (
	"os"
	"path/filepath"
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
