package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A rig that compiles another checkout replaces the cached binary. The binary of a running test stays as it is.
func TestLinkedBinaryOutlivesItsReplacement(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := binariesDir(testOptions{})
	testutil.Must(t, err)
	cached, running := filepath.Join(dir, "a.test"), filepath.Join(t.TempDir(), "a.test")
	write := func(path, content string) {
		testutil.Must(t, os.WriteFile(path, []byte(content), 0o755))
	}
	write(cached, "first")
	testutil.Must(t, linkOrCopy(cached, running))
	write(cached+".new", "second")
	testutil.Must(t, os.Rename(cached+".new", cached))
	content, err := os.ReadFile(running)
	testutil.Assert(t, err == nil && string(content) == "first", "%q, %v", content, err)
}

func TestBinariesAreLockedForOneRigAtATime(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockBinaries(dir)
	testutil.Must(t, err)
	other, err := os.Open(filepath.Join(dir, "lock"))
	testutil.Must(t, err)
	defer other.Close()
	try := func() error { return syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	testutil.Assert(t, try() == syscall.EWOULDBLOCK, "the lock was taken twice")
	unlock()
	testutil.Check(t, try(), "after that")
}
