package volumemanager

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestSubPathStaysInTheVolumeUnderRaces: openPart never leaves the volume, while a container exchanges a directory on
// the path for a link out of the volume, and back.
func TestSubPathStaysInTheVolumeUnderRaces(t *testing.T) {
	const rounds = 2000
	volume, outside := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(volume, "way"), 0o755),
		os.WriteFile(filepath.Join(volume, "way", "f"), []byte("inside"), 0o644),
		os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o644),
		os.Symlink(outside, filepath.Join(volume, "evil")),
	); err != nil {
		t.Fatal(err)
	}
	var forbidden unix.Stat_t
	testutil.Must(t, unix.Stat(filepath.Join(outside, "f"), &forbidden))
	end := make(chan struct{})
	var hostile sync.WaitGroup
	hostile.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(volume, "way"), unix.AT_FDCWD,
					filepath.Join(volume, "evil"), unix.RENAME_EXCHANGE)
			}
		}
	})
	opened := 0
	for round := range rounds {
		path := "way/f"
		if round%2 == 1 {
			path = "way/made/deeper"
		}
		part, err := openPart(volume, path)
		if err != nil {
			continue // the link was in the way
		}
		opened++
		var got unix.Stat_t
		testutil.Check(t, unix.Fstat(int(part.Fd()), &got))
		testutil.Assert(t, got.Ino != forbidden.Ino || got.Dev != forbidden.Dev,
			"round %d: the part is a file outside of the volume", round)
		testutil.Check(t, part.Close())
	}
	close(end)
	hostile.Wait()
	entries, err := os.ReadDir(outside)
	testutil.Assert(t, err == nil && len(entries) == 1, "files outside of the volume: %v, %v", entries, err)
	testutil.Assert(t, opened > 0, "none of %d tries opened a part", rounds)
}
