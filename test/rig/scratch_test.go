package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestSweepLeavesLockedDirectories(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	held, err := newScratch()
	testutil.Must(t, err)
	killed, err := newScratch()
	testutil.Must(t, err)
	if err := killed.lock.Close(); err != nil { // as the kernel does for a killed process
		t.Fatal(err)
	}
	begun := filepath.Join(temp, scratchPrefix+"begun") // another run has made its directory, but no lock yet
	testutil.Must(t, os.Mkdir(begun, 0o755))
	old := filepath.Join(temp, scratchPrefix+"old") // a run was killed before it made a lock
	testutil.Must(t, os.Mkdir(old, 0o755))
	then := time.Now().Add(-2 * time.Hour)
	testutil.Must(t, os.Chtimes(old, then, then))
	closed := filepath.Join(temp, scratchPrefix+"closed") // an old directory has a lock that cannot be opened
	testutil.Must(t, os.Mkdir(closed, 0o755))
	testutil.Must(t, os.Symlink("lock", filepath.Join(closed, "lock")))
	testutil.Must(t, os.Chtimes(closed, then, then))
	next, err := newScratch()
	testutil.Must(t, err)
	for path, want := range map[string]bool{
		held.dir: true, killed.dir: false, begun: true, old: false, closed: true, next.dir: true,
	} {
		testutil.Assert(t, exists(path) == want, "%s exists: %v, want %v", path, !want, want)
	}
	for _, s := range []*scratch{held, next} {
		err := s.remove()
		testutil.Assert(t, err == nil && !exists(s.dir), "remove: %v; still there: %v", err, exists(s.dir))
	}
}

// TestScratchesBeginTogether begins many runs at once. No run takes another run's directory for the directory of a
// killed run.
func TestScratchesBeginTogether(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 50 {
				s, err := newScratch()
				if err != nil {
					t.Error(err)
					return
				}
				testutil.Check(t, s.remove())
			}
		})
	}
	runs.Wait()
}

func TestScratchLetsContainersIn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := newScratch()
	testutil.Must(t, err)
	defer s.remove()
	for _, dir := range []string{s.dir, s.workDir()} {
		info, err := os.Stat(dir)
		testutil.Assert(t, err == nil && info.Mode().Perm() == 0o755, "%s: %v, %v", dir, info.Mode(), err)
	}
}
