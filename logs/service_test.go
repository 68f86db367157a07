package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFollowWhileWritten(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 10)
	waitLines(t, logPath, 10)
	want = append(want, engine.lines(11, 2000)...)
	wantLog(t, s, logPath, want)
}

func TestEngineMakesItsLogAfterTheFollower(t *testing.T) {
	enginePath, logPath := paths(t)
	container := filepath.Dir(filepath.Dir(enginePath))
	if err := os.MkdirAll(container, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	if _, lines := readCRI(t, logPath); len(lines) != 0 {
		t.Errorf("a fresh CRI log holds %q", lines)
	}
	time.Sleep(20 * time.Millisecond) // let the follower wait
	want := newEngineLog(t, enginePath, 2, 1<<20).lines(1, 3)
	equalLines(t, waitLines(t, logPath, 3), want)
	drain(t, s, "c")
}

func TestRotations(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 3, 1000)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	var want []string
	for i := range 200 { // about 13 lines a file, never two files ahead of the follower
		want = append(want, engine.lines(i*10+1, i*10+10)...)
		waitLines(t, logPath, len(want)-10)
	}
	wantLog(t, s, logPath, want)
}

// The follower holds the file that it reads, so one more rotation than the engine keeps files is survived; beyond that
// the oldest lines are gone, and what there is comes in order.
func TestFollowerThatFallsBehind(t *testing.T) {
	for name, again := range map[string]bool{"from the start": false, "resumed without a position": true} {
		t.Run(name, func(t *testing.T) { testFollowerThatFallsBehind(t, again) })
	}
}

func testFollowerThatFallsBehind(t *testing.T, again bool) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 3, 400)
	want := engine.lines(1, 3)
	s := newService(t)
	source := localLog(enginePath, logPath)
	start(t, s, source)
	waitLines(t, logPath, 3)
	if again {
		s = restart(t, s)
		source.Started = true
		start(t, s, source)
		want = append(want, engine.lines(4, 4)...)
		waitLines(t, logPath, 4)
	}
	f := s.follower("c")
	release := hold(t, f)
	for i := len(want) + 1; i <= 100; i++ {
		engine.lines(i, i)
	}
	release()
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	got = oneMarker(t, got)
	if counters := s.Counters(); counters.Gaps != 1 || counters.DamagedBytes != 0 {
		t.Errorf("counted %+v, want one gap", counters)
	}
	if got[len(got)-1] != "stdout F line 100" {
		t.Errorf("the last line is %q", got[len(got)-1])
	}
	if len(got) < len(want) || len(got) >= 100 {
		t.Errorf("%d lines, want more than the first %d and less than all", len(got), len(want))
	}
	seen := map[string]bool{}
	for _, line := range got {
		if seen[line] {
			t.Errorf("%q is there twice", line)
		}
		seen[line] = true
	}
	for i := 1; i <= 10; i++ { // the rest of the file that was held
		if !seen[fmt.Sprintf("stdout F line %d", i)] && i <= 8 {
			t.Errorf("line %d of the file that the follower held is missing", i)
		}
	}
}

// hold keeps a follower from copying until the returned function is called.
func hold(t *testing.T, f *follower) (release func()) {
	t.Helper()
	answer := make(chan error) // without room: the follower waits for its reader
	f.reopen <- answer
	return func() {
		if err := <-answer; err != nil {
			t.Errorf("reopen: %v", err)
		}
	}
}

func TestReopen(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	saved := &positions{}
	start(t, s, savedLog(enginePath, logPath, saved))
	first := engine.lines(1, 5)
	waitLines(t, logPath, 5)
	rotated := logPath + ".20240101"
	if err := os.Rename(logPath, rotated); err != nil {
		t.Fatal(err)
	}
	first = append(first, engine.lines(6, 6)...)
	waitLines(t, rotated, 6) // until the request, the renamed file is written
	if err := s.Reopen(t.Context(), "c"); err != nil {
		t.Fatalf("Reopen: %v", err)
	}
	if _, err := os.Stat(logPath); err != nil {
		t.Errorf("no new file after Reopen: %v", err)
	}
	second := engine.lines(7, 9)
	drain(t, s, "c")
	_, got := readCRI(t, rotated)
	equalLines(t, got, first)
	_, got = readCRI(t, logPath)
	equalLines(t, got, second)
	if info, _ := os.Stat(logPath); saved.get().OutputSize != info.Size() {
		t.Errorf("the saved output size is %d, want that of the new file, %d", saved.get().OutputSize, info.Size())
	}
	if err := s.Reopen(t.Context(), "c"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("Reopen of a container that is not followed: %v", err)
	}
}

func TestReopenKeepsTheOldFileOnAnError(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	rotated := logPath + ".old"
	if err := os.Rename(logPath, rotated); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(logPath, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Reopen(t.Context(), "c"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("Reopen with a directory at the path: %v", err)
	}
	want := engine.lines(1, 2)
	drain(t, s, "c")
	_, got := readCRI(t, rotated)
	equalLines(t, got, want)
}

// restart ends the service and returns a new one, as a restart of criadapter would.
func restart(t *testing.T, s *Service) *Service {
	t.Helper()
	s.Close()
	return newService(t)
}

func TestRestartLosesAndRepeatsNothing(t *testing.T) {
	s, engine, source, saved := follow(t, 3, 2000)
	logPath := source.LogPath
	var want []string
	for i := range 30 {
		want = append(want, engine.lines(i*20+1, i*20+10)...)
		if i%2 == 0 {
			waitLines(t, logPath, len(want)) // otherwise it ends in the middle
		}
		s = restart(t, s)
		want = append(want, engine.lines(i*20+11, i*20+20)...) // while it is away
		at := saved.get()
		source.Resume = &at
		start(t, s, source)
	}
	wantLog(t, s, logPath, want)
}

// After a kill the saved position is an older one: the output behind it is written again.
func TestKillLosesAndRepeatsNothing(t *testing.T) {
	s, engine, source, saved := follow(t, 3, 2000)
	logPath := source.LogPath
	var want []string
	for i := range 30 {
		want = append(want, engine.lines(i*20+1, i*20+10)...)
		waitLines(t, logPath, len(want))
		at := saved.get() // what a killed program leaves: the goroutine never saves again
		s = restart(t, s)
		// A kill in the middle of a write leaves the beginning of a line.
		testutil.AppendFile(t, logPath, "2024-01-01T00:00:00Z stdout F li")
		want = append(want, engine.lines(i*20+11, i*20+20)...)
		source.Resume = &at
		start(t, s, source)
	}
	wantLog(t, s, logPath, want)
}

// When the engine has dropped the file of the position, nothing that is already written may be cut away.
func TestResumeAfterTheEngineDroppedTheFile(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 300)
	logPath := source.LogPath
	before := engine.lines(1, 3)
	waitLines(t, logPath, 3)
	old := saved.get()
	s = restart(t, s)
	testutil.AppendFile(t, logPath, "2024-01-01T00:00:00Z stdout F hal") // killed in the middle of a write
	engine.lines(4, 60)
	source.Resume = &old
	start(t, s, source)
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	if !strings.HasPrefix(got[3], markerStart) {
		t.Errorf("behind the kept lines comes %q, want the marker", got[3])
	}
	got = oneMarker(t, got)
	if !slices.Equal(got[:3], before) {
		t.Errorf("the log begins with %q, want %q", got[:3], before)
	}
	if got[len(got)-1] != "stdout F line 60" || !strings.HasPrefix(got[3], "stdout F line ") {
		t.Errorf("the log goes on with %q and ends with %q", got[3], got[len(got)-1])
	}
}

// The file of the position is gone and the next one got its inode; a record ends at the very offset.
func TestResumeDoesNotTrustAReusedInode(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 1<<20)
	enginePath, logPath := source.Path, source.LogPath
	want := engine.lines(1, 3)
	waitLines(t, logPath, 3)
	s = restart(t, s)
	at := saved.get()
	if err := os.Truncate(enginePath, 0); err != nil { // same inode, other content
		t.Fatal(err)
	}
	want = append(want, engine.lines(4, 9)...)
	source.Resume = &at
	start(t, s, source)
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	equalLines(t, oneMarker(t, got), want)
}

// A container that ended with a damaged record is complete: every restart of criadapter finds it so.
func TestRestartsBehindADamagedEnd(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	want := engine.lines(1, 3)
	engine.raw(localRecord(out("cut short"), false)[:20])
	saved := &positions{}
	source := savedLog(enginePath, logPath, saved)
	s := newService(t)
	for range 3 {
		start(t, s, source)
		drain(t, s, "c")
		_, got := readCRI(t, logPath)
		equalLines(t, got, want)
		at := saved.get()
		source.Resume = &at
	}
}

// The kubelet has rotated the CRI log, and criadapter was killed after that.
func TestKillAfterReopen(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 1<<20)
	logPath := source.LogPath
	engine.lines(1, 5)
	waitLines(t, logPath, 5)
	if err := os.Rename(logPath, logPath+".old"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reopen(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	at := saved.get()
	want := engine.lines(6, 9)
	waitLines(t, logPath, 4)
	s = restart(t, s)
	want = append(want, engine.lines(10, 12)...)
	source.Resume = &at
	start(t, s, source)
	wantLog(t, s, logPath, want)
}

func TestFreshStartAppends(t *testing.T) {
	enginePath, logPath := paths(t)
	if err := os.MkdirAll(filepath.Dir(logPath), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logPath, []byte("2024-01-01T00:00:00Z stdout F of another container\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	want := append([]string{"stdout F of another container"}, newEngineLog(t, enginePath, 2, 1<<20).lines(1, 2)...)
	saved := &positions{}
	source := savedLog(enginePath, logPath, saved)
	s := newService(t)
	start(t, s, source)
	wantLog(t, s, logPath, want)
	// And a later kill does not cut away what was there first.
	at := saved.get()
	source.Resume = &at
	start(t, s, source)
	wantLog(t, s, logPath, want)
}

// The end of a torn record at the end of the file may still come.
func TestTornLastRecordWaits(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	record := localRecord(out("in two parts"), false)
	engine.raw(record[:10])
	time.Sleep(30 * time.Millisecond)
	if _, lines := readCRI(t, logPath); len(lines) != 0 {
		t.Errorf("half a record gave %q", lines)
	}
	engine.raw(record[10:])
	equalLines(t, waitLines(t, logPath, 1), []string{"stdout F in two parts"})
	drain(t, s, "c")
}

// The engine was killed in the middle of a record and went on behind it.
func TestTornRecordIsPassedOver(t *testing.T) {
	for _, where := range []string{"in the middle", "at the beginning", "at the end", "before a rotation", "shortly before a rotation", "zeros"} {
		t.Run(where, func(t *testing.T) {
			enginePath, logPath := paths(t)
			engine := newEngineLog(t, enginePath, 2, 1<<20)
			torn := localRecord(out(strings.Repeat("x", 500)), false)[:300]
			var want []string
			switch where {
			case "in the middle":
				want = engine.lines(1, 3)
				engine.raw(torn)
				want = append(want, engine.lines(4, 30)...)
			case "at the beginning":
				engine.raw(torn)
				want = engine.lines(1, 30)
			case "at the end":
				want = engine.lines(1, 30)
				engine.raw(torn)
			case "before a rotation":
				want = engine.lines(1, 30)
				engine.raw(torn)
				engine.rotate()
				want = append(want, engine.lines(31, 40)...)
			case "shortly before a rotation": // within the torn record's length
				want = engine.lines(1, 30)
				engine.raw(torn)
				want = append(want, engine.lines(31, 32)...)
				engine.rotate()
				want = append(want, engine.lines(33, 40)...)
			case "zeros":
				want = engine.lines(1, 3)
				engine.raw(make([]byte, 3*maxWindow))
				want = append(want, engine.lines(4, 30)...)
			}
			s := newService(t)
			start(t, s, localLog(enginePath, logPath))
			drain(t, s, "c")
			_, got := readCRI(t, logPath)
			equalLines(t, got, want)
		})
	}
}

func TestUnknownFraming(t *testing.T) {
	for name, content := range map[string][]byte{
		"text":       []byte("this is not a log of the engine\n"),
		"large text": bytes.Repeat([]byte("this is not a log of the engine\n"), 200_000),
	} {
		for _, driver := range []string{DriverLocal, DriverJSONFile} {
			t.Run(driver+" "+name, func(t *testing.T) {
				enginePath, logPath := paths(t)
				engine := newEngineLog(t, enginePath, 2, 1<<30)
				engine.raw(content)
				s := newService(t)
				start(t, s, Source{ContainerID: "c", Driver: driver, Path: enginePath, LogPath: logPath})
				if err := s.Drain(t.Context(), "c"); !errors.Is(err, errFormat) {
					t.Errorf("Drain: %v, want ErrFormat", err)
				}
				if err := s.Drain(t.Context(), "c"); err != nil {
					t.Errorf("second Drain: %v", err)
				}
			})
		}
	}
}

// With max-file=1 the engine empties its file.
func TestFileEmptiedInPlace(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 1, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 10)
	waitLines(t, logPath, 10)
	if err := os.Truncate(enginePath, 0); err != nil {
		t.Fatal(err)
	}
	want = append(want, engine.lines(11, 12)...)
	equalLines(t, waitLines(t, logPath, 12), want)
	drain(t, s, "c")
}

func TestLongLines(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<30)
	const piece = 16 << 10
	var want []string
	for range 64 { // 1 MiB in the engine's pieces
		engine.raw(localRecord(entry{1, stdout, bytes.Repeat([]byte("z"), piece), true}, false))
		want = append(want, "stdout P "+strings.Repeat("z", piece))
	}
	engine.raw(localRecord(entry{1, stdout, []byte("end"), true}, true))
	want = append(want, "stdout F end")
	engine.raw(localRecord(entry{1, stderr, bytes.Repeat([]byte("y"), maxRecord-100), false}, false))
	want = append(want, "stderr F "+strings.Repeat("y", maxRecord-100))
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	wantLog(t, s, logPath, want)
}

func TestLogPathTaken(t *testing.T) {
	tests := map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"link":      func(path string) error { return os.Symlink("/dev/null", path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o644) },
		"device":    func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) },
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			enginePath, logPath := paths(t)
			newEngineLog(t, enginePath, 2, 1<<20)
			if err := os.MkdirAll(filepath.Dir(logPath), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := make(logPath); errors.Is(err, fs.ErrPermission) {
				t.Skip("needs root:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			s := newService(t)
			err := s.Start(t.Context(), localLog(enginePath, logPath))
			if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), logPath) {
				t.Errorf("Start: %v, want ErrFailedPrecondition with the path", err)
			}
			drain(t, s, "c") // there is no follower
		})
	}
}

func TestStartErrors(t *testing.T) {
	enginePath, logPath := paths(t)
	s := newService(t)
	source := localLog(enginePath, logPath)
	if err := s.Start(t.Context(), source); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory of the container: %v, want fs.ErrNotExist", err)
	}
	newEngineLog(t, enginePath, 2, 1<<20)
	source.Driver = "journald"
	if err := s.Start(t.Context(), source); !errdefs.IsNotImplemented(err) {
		t.Errorf("driver without a file: %v", err)
	}
	source.Driver = DriverLocal
	start(t, s, source)
	if err := s.Start(t.Context(), source); !errdefs.IsAlreadyExists(err) {
		t.Errorf("second Start: %v", err)
	}
	s.Close()
	if err := s.Start(t.Context(), source); !errdefs.IsUnavailable(err) {
		t.Errorf("Start after Close: %v", err)
	}
	s.Close()
}

func TestNoLogPathNoFollower(t *testing.T) {
	s := newService(t)
	start(t, s, Source{ContainerID: "c", Driver: "none"})
	if s.follower("c") != nil {
		t.Error("a container without a log path has a follower")
	}
	drain(t, s, "c")
}

func TestDrainEndsWithItsContext(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 5)
	waitLines(t, logPath, 5)
	release := hold(t, s.follower("c"))
	want = append(want, engine.lines(6, 9)...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain of a follower that is held up: %v", err)
	}
	release()
	wantLog(t, s, logPath, want)
}

// When the engine removes a container behind everybody's back its follower ends by itself.
func TestFollowerEndsWithTheContainersDir(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 5)
	waitLines(t, logPath, 5)
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(enginePath))); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, func() error {
		if s.follower("c") != nil {
			return errors.New("the follower of a removed container goes on")
		}
		return nil
	})
	_, got := readCRI(t, logPath)
	equalLines(t, got, want)
}

func TestSaveErrorsDoNotStopTheLog(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 300)
	s := newService(t)
	start(t, s, Source{ContainerID: "c", Driver: DriverLocal, Path: enginePath, LogPath: logPath,
		Save: func(context.Context, checkpoint.LogPosition) error { return errors.New("disk full") }})
	var want []string
	for i := 1; i <= 20; i++ {
		want = append(want, engine.lines(i, i)...)
		waitLines(t, logPath, i)
	}
	wantLog(t, s, logPath, want)
}

// TestManyFollowers follows 100 containers at once and counts what that costs.
func TestManyFollowers(t *testing.T) {
	const n = 100
	s := newService(t)
	before := openFiles(t)
	engines, logPaths := make([]*engineLog, n), make([]string, n)
	for i := range n {
		var enginePath string
		enginePath, logPaths[i] = paths(t)
		engines[i] = newEngineLog(t, enginePath, 2, 1<<20)
		start(t, s, Source{ContainerID: fmt.Sprint(i), Driver: DriverLocal, Path: enginePath, LogPath: logPaths[i]})
	}
	for i := range n {
		engines[i].lines(1, 20)
	}
	for i := range n {
		waitLines(t, logPaths[i], 20)
	}
	if used := openFiles(t) - before - n; used > 2*n+1 { // each engineLog holds one itself, and the watches have one
		t.Errorf("%d followers hold %d file descriptors, want at most two each", n, used)
	}
	s.Close()
	if left := openFiles(t) - before - n; left > 0 {
		t.Errorf("%d file descriptors are left after Close", left)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
