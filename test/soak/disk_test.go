package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A full disk has no room for a byte. An emptied disk has room again.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer func() {
		testutil.Check(t, unix.Unmount(dir, unix.MNT_DETACH))
	}()
	path := filepath.Join(dir, "file")
	for range 2 { // a full disk can be filled again
		testutil.Must(t, fill(dir))
	}
	err := os.WriteFile(path, []byte("x"), 0o644)
	testutil.Assert(t, errors.Is(err, unix.ENOSPC), "on a full disk: %v", err)
	testutil.Must(t, empty(dir))
	testutil.Check(t, os.WriteFile(path, []byte("x"), 0o644), "on an emptied disk")
}
