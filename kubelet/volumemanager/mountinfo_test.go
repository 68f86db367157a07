package volumemanager

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestMountPointsOfAnOddName: the kernel escapes such names, and lists real paths.
func TestMountPointsOfAnOddName(t *testing.T) {
	needRoot(t)
	real, err := filepath.EvalSymlinks(t.TempDir())
	testutil.Must(t, err)
	odd := filepath.Join(real, "a b\\c\td")
	below := filepath.Join(odd, "below")
	for _, path := range []string{odd, below} {
		testutil.Must(t, os.Mkdir(path, 0o755))
		wantMountPoint(t, path, false)
		testutil.Must(t, mountTmpfs(path, nil, 0))
		t.Cleanup(func() { _ = unmountBelow(path) })
		wantMountPoint(t, path, true)
	}
	link := filepath.Join(real, "link")
	testutil.Must(t, os.Symlink(odd, link))
	testutil.Must(t, os.Mkdir(odd+"x", 0o755))
	for path, want := range map[string][]string{
		odd: {odd, below}, link: {odd, below}, below: {below}, odd + "x": nil, filepath.Join(real, "missing"): nil,
	} {
		got, err := mountPoints(path)
		testutil.Assert(t, err == nil && slices.Equal(got, want), "%s: %q, %v; want %q", path, got, err, want)
	}
	testutil.Must(t, unmountBelow(odd))
	wantMountPoint(t, odd, false)
	wantMountPoint(t, filepath.Join(real, "missing"), false)
}

func wantMountPoint(t *testing.T, path string, want bool) {
	t.Helper()
	got, err := isMountPoint(path)
	testutil.Assert(t, err == nil && got == want, "%s: a mount point: %v, %v; want %v", path, got, err, want)
}
