package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Directories stand for cgroups here. A cgroup in use cannot be removed, like a directory with a file.
func TestRemoveTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "top")
	testutil.WriteFile(t, filepath.Join(dir, "used", "file"), "")
	testutil.Must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	err := RemoveTree(dir)
	_, gone := os.Stat(filepath.Join(dir, "a"))
	testutil.Assert(t, err != nil && errors.Is(gone, fs.ErrNotExist), "got %v, %v", err, gone)
	testutil.Must(t, os.Remove(filepath.Join(dir, "used", "file")))
	for range 2 { // the second time the cgroup is missing
		testutil.Must(t, RemoveTree(dir))
	}
	_, gone = os.Stat(dir)
	testutil.Assert(t, errors.Is(gone, fs.ErrNotExist), "got %v", gone)
}

// Find returns nothing for the root. Otherwise Remove would remove all cgroups of the machine.
func TestRootIsNotFound(t *testing.T) {
	for _, name := range []string{"", "/", "."} {
		testutil.Equal(t, len(Find(name)), 0, "directories of %q", name)
	}
}
