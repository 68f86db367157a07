package volumemanager

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The kernel's table has escapes for such names, and lists what is mounted by its real path.
func TestMountPointsOfAnOddName(t *testing.T) {
	needRoot(t)
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(real, "a b\\c\td")
	below := filepath.Join(odd, "below")
	for _, path := range []string{odd, below} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		wantMountPoint(t, path, false)
		if err := mountTmpfs(path, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unmountBelow(path) }) // what the test left
		wantMountPoint(t, path, true)
	}
	link := filepath.Join(real, "link")
	if err := os.Symlink(odd, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(odd+"x", 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		odd: {odd, below}, link: {odd, below}, below: {below}, odd + "x": nil, filepath.Join(real, "missing"): nil,
	} {
		if got, err := mountPoints(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if err := unmountBelow(odd); err != nil {
		t.Fatal(err)
	}
	wantMountPoint(t, odd, false)
	wantMountPoint(t, filepath.Join(real, "missing"), false)
}

func wantMountPoint(t *testing.T, path string, want bool) {
	t.Helper()
	if got, err := isMountPoint(path); err != nil || got != want {
		t.Errorf("%s: a mount point: %v, %v; want %v", path, got, err, want)
	}
}
