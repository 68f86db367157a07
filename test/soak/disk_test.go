package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A disk that is full has no room for a byte, and room again when it is emptied.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer func() {
		testutil.Check(t, unix.Unmount(dir, unix.MNT_DETACH))
	}()
	path := filepath.Join(dir, "file")
	for range 2 { // full disks are filled again
		testutil.Must(t, fill(dir))
	}
	err := os.WriteFile(path, []byte("x"), 0o644)
	testutil.Assert(t, errors.Is(err, unix.ENOSPC), "on a full disk: %v", err)
	testutil.Must(t, empty(dir))
	testutil.Check(t, os.WriteFile(path, []byte("x"), 0o644), "on an emptied disk")
}
