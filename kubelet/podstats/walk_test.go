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
)

// write makes a file with so many bytes on disk.
func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil { // a file system may allocate late
		t.Fatal(err)
	}
}

// between wants a size in bytes up to what the blocks of its files and directories may add.
func between(t *testing.T, what string, got, least int64) {
	t.Helper()
	if most := least + 256<<10; got < least || got > most {
		t.Errorf("%s: %d bytes, want %d to %d", what, got, least, most)
	}
}

func TestMeasure(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "big"), 4<<20)
	write(t, filepath.Join(dir, "a"), 1<<20)
	write(t, filepath.Join(dir, "below", "deeper", "b"), 1<<20)
	for link, target := range map[string]string{"file": filepath.Join(outside, "big"), "directory": outside, "loop": dir} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, fmt.Sprint("again", i))); err != nil {
			t.Fatal(err)
		}
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if err := sparse.Truncate(1 << 30); err != nil {
		t.Fatal(err)
	}
	got, err := measure(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	between(t, "files of 2 MiB", got.Bytes, 2<<20)
	if want := int64(9); got.Inodes != want { // the directory, two below, two files, three links, the sparse file
		t.Errorf("%d inodes, want %d", got.Inodes, want)
	}
}

// TestMeasureManyAndDeep: more names than are read at once, and a path longer than the kernel takes in one call.
func TestMeasureManyAndDeep(t *testing.T) {
	dir := t.TempDir()
	const files = 2*batch + 1
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const depth = 60
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		name := strings.Repeat("d", 200)
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	unix.Close(at)
	got, err := measure(t.Context(), dir)
	if want := int64(1 + files + depth); err != nil || got.Inodes != want {
		t.Errorf("%d inodes, want %d: %v", got.Inodes, want, err)
	}
}

// TestMeasureStaysOnItsFileSystem: what is mounted below is somebody else's.
func TestMeasureStaysOnItsFileSystem(t *testing.T) {
	dir := t.TempDir()
	mounted := filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(mounted, "big"), 4<<20)
	got, err := measure(t.Context(), dir)
	if err != nil || got.Inodes != 1 {
		t.Errorf("%+v: %v, want the directory alone", got, err)
	}
}

func TestMeasureEnds(t *testing.T) {
	if got, err := measure(t.Context(), filepath.Join(t.TempDir(), "none")); err != nil || got != (Disk{}) {
		t.Errorf("a directory that is not there: %+v, %v", got, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	if got, err := measure(t.Context(), link); err == nil {
		t.Errorf("a link was followed: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := measure(ctx, t.TempDir()); !errors.Is(err, context.Canceled) || got.Inodes != 1 {
		t.Errorf("%+v, %v: want what was counted, and why no more", got, err)
	}
}
