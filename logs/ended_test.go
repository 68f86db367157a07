package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

// endedOnAFullDisk is a container that has ended with more output than there is room for.
func endedOnAFullDisk(t *testing.T) (s *Service, source Source, want []string, free func()) {
	t.Helper()
	disk := smallDisk(t)
	enginePath, _ := paths(t)
	source = localLog(enginePath, filepath.Join(disk, "0.log"))
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s = newService(t)
	start(t, s, source)
	want = engine.lines(1, 3)
	waitLines(t, source.LogPath, 3)
	free = fillDisk(t, disk)
	want = append(want, engine.lines(4, 500)...)
	began := time.Now()
	if err := s.Drain(t.Context(), "c"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Drain: %v, want ENOSPC", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("Drain took %v", took)
	}
	return s, source, want, free
}

// What could not be written at the end of a container is written when there is room.
func TestEndedLogIsCompletedLater(t *testing.T) {
	s, source, want, free := endedOnAFullDisk(t)
	free()
	equalLines(t, waitLines(t, source.LogPath, len(want)), want)
	testutil.Eventually(t, func() error {
		if s.follower("c") != nil {
			return errors.New("the follower of a complete log goes on")
		}
		return nil
	})
}

// A container that is removed needs no log any more: its files would only keep the disk full.
func TestEndedFollowerGoesWithTheContainer(t *testing.T) {
	s, source, _, free := endedOnAFullDisk(t)
	defer free()
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(source.Path))); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, func() error {
		if f := s.follower("c"); f != nil && !closed(f.done) {
			return errors.New("the follower of a removed container goes on")
		}
		return nil
	})
}

// A container that somebody starts again while its log is being completed goes on in it.
func TestStartedAgainWhileTheLogIsCompleted(t *testing.T) {
	s, source, want, free := endedOnAFullDisk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Start(ctx, source); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	free()
	saved := &positions{}
	source.Save, source.Started = saved.save, true
	start(t, s, source)
	engine := &engineLog{t: t, path: source.Path, maxFiles: 2, maxSize: 1 << 20}
	file, err := os.OpenFile(source.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	engine.file = file
	want = append(want, engine.lines(501, 505)...)
	wantLog(t, s, source.LogPath, want)
}

// Nobody waits longer than he wants to for a disk that hangs.
func TestReopenEndsWithItsContext(t *testing.T) {
	enginePath, logPath := paths(t)
	newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	source := localLog(enginePath, logPath)
	var hangs atomic.Bool
	hang := make(chan struct{})
	defer close(hang)
	source.Save = func(context.Context, checkpoint.LogPosition) error {
		if hangs.Load() {
			<-hang
		}
		return nil
	}
	start(t, s, source)
	hangs.Store(true)
	if err := os.Rename(logPath, logPath+".old"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Reopen(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reopen: %v", err)
	}
}
