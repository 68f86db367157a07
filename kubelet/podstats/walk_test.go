package podstats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// write makes a file of that size on disk.
func write(t *testing.T, path string, size int) {
	t.Helper()
	testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	file, err := os.Create(path)
	testutil.Must(t, err)
	defer file.Close()
	_, err = file.Write(make([]byte, size))
	testutil.Must(t, err)
	testutil.Must(t, file.Sync()) // a file system may allocate late
}

// between checks that got is not below least, and at most 256 KiB above it for blocks and directories.
func between(t *testing.T, what string, got, least int64) {
	t.Helper()
	most := least + 256<<10
	testutil.Assert(t, got >= least && got <= most, "%s: %d bytes, want %d to %d", what, got, least, most)
}

func TestMeasure(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "big"), 4<<20)
	write(t, filepath.Join(dir, "a"), 1<<20)
	write(t, filepath.Join(dir, "below", "deeper", "b"), 1<<20)
	for link, target := range map[string]string{"file": filepath.Join(outside, "big"), "directory": outside,
		"loop": dir} {
		testutil.Must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for i := range 3 {
		testutil.Must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, fmt.Sprint("again", i))))
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	testutil.Must(t, err)
	defer sparse.Close()
	testutil.Must(t, sparse.Truncate(1<<30))
	got, err := measure(t.Context(), dir)
	testutil.Must(t, err)
	between(t, "files of 2 MiB", got.Bytes, 2<<20)
	if want := int64(9); got.Inodes != want { // the directory, two below, two files, three links, the sparse file
		t.Errorf("%d inodes, want %d", got.Inodes, want)
	}
}

// TestMeasureManyAndDeep: a directory with more names than batch, and a path longer than PATH_MAX.
func TestMeasureManyAndDeep(t *testing.T) {
	dir := t.TempDir()
	const files = 2*batch + 1
	for i := range files {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	const depth = 60
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	testutil.Must(t, err)
	for range depth {
		name := strings.Repeat("d", 200)
		testutil.Must(t, unix.Mkdirat(at, name, 0o700))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		testutil.Must(t, err)
		at = next
	}
	unix.Close(at)
	got, err := measure(t.Context(), dir)
	want := int64(1 + files + depth)
	testutil.Assert(t, err == nil && got.Inodes == want, "%d inodes, want %d: %v", got.Inodes, want, err)
}

// TestMeasureStaysOnItsFileSystem: a mount below the directory does not count.
func TestMeasureStaysOnItsFileSystem(t *testing.T) {
	dir := t.TempDir()
	mounted := filepath.Join(dir, "mounted")
	testutil.Must(t, os.Mkdir(mounted, 0o755))
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		testutil.Must(t, unix.Unmount(mounted, 0))
	})
	write(t, filepath.Join(mounted, "big"), 4<<20)
	got, err := measure(t.Context(), dir)
	testutil.Assert(t, err == nil && got.Inodes == 1, "%+v: %v, want the directory alone", got, err)
}

func TestMeasureEnds(t *testing.T) {
	got, err := measure(t.Context(), filepath.Join(t.TempDir(), "none"))
	testutil.Assert(t, err == nil && got == (Disk{}), "a missing directory: %+v, %v", got, err)
	link := filepath.Join(t.TempDir(), "link")
	testutil.Must(t, os.Symlink("/", link))
	got, err = measure(t.Context(), link)
	testutil.Assert(t, err != nil, "a link was followed: %+v", got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := measure(ctx, t.TempDir()); !errors.Is(err, context.Canceled) || got.Inodes != 1 {
		t.Errorf("%+v, %v: want the usage so far, and the error", got, err)
	}
}
