package ociexec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A start removes the leftovers of earlier starts, but not the directory of a Runner or keeper that lives.
func TestEachStartHasItsOwnDirectory(t *testing.T) {
	base := t.TempDir()
	testutil.Must(t, os.MkdirAll(filepath.Join(base, "command-1"), 0o700))
	first, err := New(base)
	testutil.Must(t, err)
	t.Cleanup(first.Close)
	second, err := New(base)
	testutil.Must(t, err)
	_, err = os.Stat(first.dir)
	testutil.Check(t, err, "the first start's directory")
	testutil.Must(t, second.lock.Close()) // as by a crash
	third, err := New(base)
	testutil.Must(t, err)
	third.Close()
	entries, err := os.ReadDir(base)
	testutil.Must(t, err)
	testutil.Assert(t, len(entries) == 1 && filepath.Join(base, entries[0].Name()) == first.dir, "left: %v", entries)
}

// A lock that cannot be opened counts as held. A plain file beside the directories of starts has no lock.
func TestLockThatCannotBeOpened(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"unknown", "unused"} {
		testutil.Must(t, os.Mkdir(filepath.Join(base, name), 0o700))
	}
	testutil.Must(t, os.Symlink(lockName, filepath.Join(base, "unknown", lockName))) // a link to itself
	testutil.WriteFile(t, filepath.Join(base, "file"), "")
	for name, want := range map[string]bool{"unknown": true, "unused": false, "file": false} {
		testutil.Assert(t, used(filepath.Join(base, name)) == want, "%s: want used: %t", name, want)
	}
}

// A start whose turn never comes fails with the name of the directory.
func TestStartThatIsNeverItsTurn(t *testing.T) {
	base := t.TempDir()
	other, err := os.Open(base)
	testutil.Must(t, err)
	defer other.Close()
	testutil.Must(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, _, err := claim(base)
		testutil.Assert(t, errors.Is(err, unix.EWOULDBLOCK) && strings.Contains(err.Error(), base), "got %v", err)
		took := time.Since(begun)
		testutil.Assert(t, took >= turnLimit && took < 2*turnLimit, "it took %v", took)
	})
}

// Starts at the same time do not remove each other's directories.
func TestStartsAtOnce(t *testing.T) {
	base := t.TempDir()
	for range 20 {
		var starts sync.WaitGroup
		for range 8 {
			starts.Go(func() {
				dir, lock, err := claim(base)
				if err != nil {
					t.Error(err)
					return
				}
				defer lock.Close()
				_, err = os.Stat(filepath.Join(dir, lockName))
				testutil.Check(t, err, "the directory of a start")
			})
		}
		starts.Wait()
	}
}
