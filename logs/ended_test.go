package logs

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

// endedOnAFullDisk is a container that has ended with more output than the disk has room for.
func endedOnAFullDisk(t *testing.T) (o *testLog, want []string, free func()) {
	t.Helper()
	o, disk := followOnSmallDisk(t, 2, 1<<20)
	want = o.engine.lines(1, 3)
	o.wait(3)
	free = fillDisk(t, disk)
	want = append(want, o.engine.lines(4, 500)...)
	began := time.Now()
	testutil.FailsWith(t, o.s.Drain(t.Context(), "c"), unix.ENOSPC, "Drain")
	took := time.Since(began)
	testutil.Assert(t, took <= 20*time.Second, "Drain took %v", took)
	return o, want, free
}

// Output that did not fit at the end of a container is written when there is room.
func TestEndedLogIsCompletedLater(t *testing.T) {
	o, want, free := endedOnAFullDisk(t)
	free()
	equalLines(t, o.wait(len(want)), want)
	awaitNoFollower(t, o.s, "c")
}

// The follower of a removed container ends. Its open files would keep the deleted logs on the disk.
func TestEndedFollowerGoesWithTheContainer(t *testing.T) {
	o, _, free := endedOnAFullDisk(t)
	defer free()
	testutil.Must(t, os.RemoveAll(filepath.Dir(filepath.Dir(o.source.Path))))
	testutil.Until(t, "the follower of the removed container ends", func() bool {
		f := o.s.follower("c")
		return f == nil || closed(f.done)
	})
}

// A container starts again while the log of its last run is being completed. Its new output follows in the same log.
func TestStartedAgainWhileTheLogIsCompleted(t *testing.T) {
	o, want, free := endedOnAFullDisk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	testutil.FailsWith(t, o.s.Start(ctx, o.source), context.DeadlineExceeded, "Start")
	free()
	o.source.Started = true
	o.start()
	o.want(append(want, o.engine.lines(501, 505)...))
}

// Reopen ends with its context while a disk hangs.
func TestReopenEndsWithItsContext(t *testing.T) {
	o := newTestLog(t, 2, 1<<20)
	var hangs atomic.Bool
	hang := make(chan struct{})
	defer close(hang)
	o.source.Save = func(context.Context, checkpoint.LogPosition) error {
		if hangs.Load() {
			<-hang
		}
		return nil
	}
	o.start()
	hangs.Store(true)
	rename(t, o.source.LogPath, o.source.LogPath+".old")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	testutil.FailsWith(t, o.s.Reopen(ctx, "c"), context.DeadlineExceeded, "Reopen")
}
