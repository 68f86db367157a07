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
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 10)
	o.wait(10)
	want = append(want, o.engine.lines(11, 2000)...)
	o.want(want)
}

func TestEngineMakesItsLogAfterTheFollower(t *testing.T) {
	enginePath, logPath := paths(t)
	container := filepath.Dir(filepath.Dir(enginePath))
	testutil.Must(t, os.MkdirAll(container, 0o700))
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	_, lines := readCRI(t, logPath)
	testutil.Assert(t, len(lines) == 0, "a fresh CRI log holds %q", lines)
	time.Sleep(20 * time.Millisecond) // let the follower wait
	want := newEngineLog(t, enginePath, 2, 1<<20).lines(1, 3)
	equalLines(t, waitLines(t, logPath, 3), want)
	drain(t, s, "c")
}

func TestRotations(t *testing.T) {
	o := follow(t, 3, 1000)
	var want []string
	for i := range 200 { // about 13 lines a file, never two files ahead of the follower
		want = append(want, o.engine.lines(i*10+1, i*10+10)...)
		o.wait(len(want) - 10)
	}
	o.want(want)
}

// A follower that falls behind holds its present file open, so it has one file more than the engine keeps. Lines in
// older files are lost, and the remaining lines come in order.
func TestFollowerThatFallsBehind(t *testing.T) {
	for name, again := range map[string]bool{"from the start": false, "resumed without a position": true} {
		t.Run(name, func(t *testing.T) { testFollowerThatFallsBehind(t, again) })
	}
}

func testFollowerThatFallsBehind(t *testing.T, again bool) {
	o := newTestLog(t, 3, 400)
	want := o.engine.lines(1, 3)
	o.start()
	o.wait(3)
	if again {
		o.restart()
		o.source.Started = true
		o.start()
		want = append(want, o.engine.lines(4, 4)...)
		o.wait(4)
	}
	release := hold(t, o.s.follower("c"))
	for i := len(want) + 1; i <= 100; i++ {
		o.engine.lines(i, i)
	}
	release()
	o.drain()
	got := oneMarker(t, o.log())
	counters := o.s.Counters()
	testutil.Assert(t, counters.Gaps == 1 && counters.DamagedBytes == 0, "counted %+v, want one gap", counters)
	testutil.Assert(t, got[len(got)-1] == "stdout F line 100", "the last line is %q", got[len(got)-1])
	testutil.Assert(t, len(got) >= len(want) && len(got) < 100,
		"%d lines, want more than the first %d and less than all", len(got), len(want))
	seen := map[string]bool{}
	for _, line := range got {
		testutil.Assert(t, !seen[line], "%q is there twice", line)
		seen[line] = true
	}
	for i := 1; i <= 8; i++ { // the rest of the file that was held
		testutil.Assert(t, seen[fmt.Sprintf("stdout F line %d", i)],
			"line %d of the file that the follower held is missing", i)
	}
}

// hold keeps a follower from copying until the returned function is called.
func hold(t *testing.T, f *follower) (release func()) {
	t.Helper()
	answer := make(chan error) // unbuffered: the follower blocks until the answer is read
	f.reopen <- answer
	return func() {
		testutil.Check(t, <-answer, "reopen")
	}
}

func TestReopen(t *testing.T) {
	o := follow(t, 2, 1<<20)
	first := o.engine.lines(1, 5)
	o.wait(5)
	rotated := o.source.LogPath + ".20240101"
	testutil.Must(t, os.Rename(o.source.LogPath, rotated))
	first = append(first, o.engine.lines(6, 6)...)
	waitLines(t, rotated, 6) // until the request, the renamed file is written
	testutil.Must(t, o.s.Reopen(t.Context(), "c"), "Reopen")
	_, err := os.Stat(o.source.LogPath)
	testutil.Assert(t, err == nil, "no new file after Reopen: %v", err)
	second := o.engine.lines(7, 9)
	o.drain()
	wantLines(t, rotated, first)
	wantLines(t, o.source.LogPath, second)
	if info, _ := os.Stat(o.source.LogPath); o.saved.get().OutputSize != info.Size() {
		t.Errorf("the saved output size is %d, want the new file's size, %d", o.saved.get().OutputSize, info.Size())
	}
	testutil.Fails(t, o.s.Reopen(t.Context(), "c"), errdefs.IsFailedPrecondition,
		"Reopen of a container that is not followed")
}

func TestReopenKeepsTheOldFileOnAnError(t *testing.T) {
	o := follow(t, 2, 1<<20)
	rotated := o.source.LogPath + ".old"
	testutil.Must(t, os.Rename(o.source.LogPath, rotated))
	testutil.Must(t, os.Mkdir(o.source.LogPath, 0o700))
	testutil.Fails(t, o.s.Reopen(t.Context(), "c"), errdefs.IsFailedPrecondition, "Reopen with a directory at the path")
	want := o.engine.lines(1, 2)
	o.drain()
	wantLines(t, rotated, want)
}

// restart ends the service and returns a new one, as a restart of criadapter would.
func restart(t *testing.T, s *Service) *Service {
	t.Helper()
	s.Close()
	return newService(t)
}

func TestRestartLosesAndRepeatsNothing(t *testing.T) {
	o := follow(t, 3, 2000)
	var want []string
	for i := range 30 {
		want = append(want, o.engine.lines(i*20+1, i*20+10)...)
		if i%2 == 0 {
			o.wait(len(want)) // otherwise the follower ends in the middle of the output
		}
		o.restart()
		want = append(want, o.engine.lines(i*20+11, i*20+20)...) // while criadapter is away
		o.keepPosition()
		o.start()
	}
	o.want(want)
}

// After a kill the saved position is an older one. The follower reads the output after it again, and writes no line
// twice.
func TestKillLosesAndRepeatsNothing(t *testing.T) {
	o := follow(t, 3, 2000)
	var want []string
	for i := range 30 {
		want = append(want, o.engine.lines(i*20+1, i*20+10)...)
		o.wait(len(want))
		o.keepPosition() // a killed program does not save its position at the end
		o.restart()
		// A kill in the middle of a write leaves the beginning of a line.
		testutil.AppendFile(t, o.source.LogPath, "2024-01-01T00:00:00Z stdout F li")
		want = append(want, o.engine.lines(i*20+11, i*20+20)...)
		o.start()
	}
	o.want(want)
}

// When the engine has dropped the file of the position, the lines in the CRI log stay.
func TestResumeAfterTheEngineDroppedTheFile(t *testing.T) {
	o := follow(t, 2, 300)
	before := o.engine.lines(1, 3)
	o.wait(3)
	old := o.saved.get()
	o.restart()
	testutil.AppendFile(t, o.source.LogPath, "2024-01-01T00:00:00Z stdout F hal") // killed in the middle of a write
	o.engine.lines(4, 60)
	o.source.Resume = &old
	o.start()
	o.drain()
	got := o.log()
	testutil.Assert(t, strings.HasPrefix(got[3], markerStart),
		"after the kept lines comes %q, want the marker", got[3])
	got = oneMarker(t, got)
	testutil.Assert(t, slices.Equal(got[:3], before), "the log begins with %q, want %q", got[:3], before)
	testutil.Assert(t, got[len(got)-1] == "stdout F line 60" && strings.HasPrefix(got[3], "stdout F line "),
		"the log goes on with %q and ends with %q", got[3], got[len(got)-1])
}

// The position's file is gone, and a new file has its inode. A record of the new file ends at the position's offset.
func TestResumeDoesNotTrustAReusedInode(t *testing.T) {
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 3)
	o.wait(3)
	o.restart()
	o.keepPosition()
	empty(t, o.source.Path) // same inode, other content
	want = append(want, o.engine.lines(4, 9)...)
	o.start()
	o.drain()
	equalLines(t, oneMarker(t, o.log()), want)
}

// The log of a container that ended with a damaged record is complete, also after restarts of criadapter.
func TestRestartsBehindADamagedEnd(t *testing.T) {
	o := newTestLog(t, 2, 1<<20)
	want := o.engine.lines(1, 3)
	o.engine.raw(localRecord(out("cut short"), false)[:20])
	for range 3 {
		o.start()
		o.want(want)
		o.keepPosition()
	}
}

// The kubelet has rotated the CRI log, and criadapter was killed after that.
func TestKillAfterReopen(t *testing.T) {
	o := follow(t, 2, 1<<20)
	o.engine.lines(1, 5)
	o.wait(5)
	testutil.Must(t, os.Rename(o.source.LogPath, o.source.LogPath+".old"))
	testutil.Must(t, o.s.Reopen(t.Context(), "c"))
	o.keepPosition()
	want := o.engine.lines(6, 9)
	o.wait(4)
	o.restart()
	want = append(want, o.engine.lines(10, 12)...)
	o.start()
	o.want(want)
}

func TestFreshStartAppends(t *testing.T) {
	o := newTestLog(t, 2, 1<<20)
	testutil.WriteFile(t, o.source.LogPath, "2024-01-01T00:00:00Z stdout F of another container\n")
	want := append([]string{"stdout F of another container"}, o.engine.lines(1, 2)...)
	o.start()
	o.want(want)
	// A start after a kill keeps the other container's line, too.
	o.keepPosition()
	o.start()
	o.want(want)
}

// The engine may still write the rest of a torn record at the end of its file.
func TestTornLastRecordWaits(t *testing.T) {
	o := follow(t, 2, 1<<20)
	record := localRecord(out("in two parts"), false)
	o.engine.raw(record[:10])
	time.Sleep(30 * time.Millisecond)
	lines := o.log()
	testutil.Assert(t, len(lines) == 0, "half a record gave %q", lines)
	o.engine.raw(record[10:])
	equalLines(t, o.wait(1), []string{"stdout F in two parts"})
	o.drain()
}

// The engine was killed in the middle of a record, and writes the next record directly after it.
func TestTornRecordIsPassedOver(t *testing.T) {
	for _, where := range []string{"in the middle", "at the beginning", "at the end", "before a rotation",
		"shortly before a rotation", "zeros"} {
		t.Run(where, func(t *testing.T) {
			o := newTestLog(t, 2, 1<<20)
			torn := localRecord(out(strings.Repeat("x", 500)), false)[:300]
			var want []string
			switch where {
			case "in the middle":
				want = o.engine.lines(1, 3)
				o.engine.raw(torn)
				want = append(want, o.engine.lines(4, 30)...)
			case "at the beginning":
				o.engine.raw(torn)
				want = o.engine.lines(1, 30)
			case "at the end":
				want = o.engine.lines(1, 30)
				o.engine.raw(torn)
			case "before a rotation":
				want = o.engine.lines(1, 30)
				o.engine.raw(torn)
				o.engine.rotate()
				want = append(want, o.engine.lines(31, 40)...)
			case "shortly before a rotation": // within the torn record's length
				want = o.engine.lines(1, 30)
				o.engine.raw(torn)
				want = append(want, o.engine.lines(31, 32)...)
				o.engine.rotate()
				want = append(want, o.engine.lines(33, 40)...)
			case "zeros":
				want = o.engine.lines(1, 3)
				o.engine.raw(make([]byte, 3*maxWindow))
				want = append(want, o.engine.lines(4, 30)...)
			}
			o.start()
			o.want(want)
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
				testutil.Eventually(t, func() error {
					err := s.Reopen(t.Context(), "c")
					if !errors.Is(err, errFormat) || !errdefs.IsFailedPrecondition(err) {
						return fmt.Errorf("Reopen: %v", err)
					}
					return nil
				})
				testutil.FailsWith(t, s.Drain(t.Context(), "c"), errFormat, "Drain")
				testutil.Check(t, s.Drain(t.Context(), "c"), "second Drain")
			})
		}
	}
}

// With max-file=1 some engines empty their file in place.
func TestFileEmptiedInPlace(t *testing.T) {
	o := follow(t, 1, 1<<20)
	want := o.engine.lines(1, 10)
	o.wait(10)
	empty(t, o.source.Path)
	want = append(want, o.engine.lines(11, 12)...)
	equalLines(t, o.wait(12), want)
	o.drain()
}

func TestLongLines(t *testing.T) {
	o := newTestLog(t, 2, 1<<30)
	const piece = 16 << 10
	var want []string
	for range 64 { // 1 MiB in the engine's pieces
		o.engine.raw(localRecord(entry{1, stdout, bytes.Repeat([]byte("z"), piece), true}, false))
		want = append(want, "stdout P "+strings.Repeat("z", piece))
	}
	o.engine.raw(localRecord(entry{1, stdout, []byte("end"), true}, true))
	want = append(want, "stdout F end")
	o.engine.raw(localRecord(entry{1, stderr, bytes.Repeat([]byte("y"), maxRecord-100), false}, false))
	want = append(want, "stderr F "+strings.Repeat("y", maxRecord-100))
	o.start()
	o.want(want)
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
			o := newTestLog(t, 2, 1<<20)
			logPath := o.source.LogPath
			testutil.Must(t, os.MkdirAll(filepath.Dir(logPath), 0o755))
			if err := make(logPath); errors.Is(err, fs.ErrPermission) {
				t.Skip("needs root:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			err := o.s.Start(t.Context(), o.source)
			testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), logPath),
				"Start: %v, want ErrFailedPrecondition with the path", err)
			o.drain() // there is no follower
		})
	}
}

func TestStartErrors(t *testing.T) {
	enginePath, logPath := paths(t)
	s := newService(t)
	source := localLog(enginePath, logPath)
	err := s.Start(t.Context(), source)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist),
		"without a directory of the container: %v, want fs.ErrNotExist", err)
	newEngineLog(t, enginePath, 2, 1<<20)
	source.Driver = "journald"
	testutil.Fails(t, s.Start(t.Context(), source), errdefs.IsNotImplemented, "driver without a file")
	source.Driver = DriverLocal
	start(t, s, source)
	testutil.Fails(t, s.Start(t.Context(), source), errdefs.IsAlreadyExists, "second Start")
	s.Close()
	testutil.Fails(t, s.Start(t.Context(), source), errdefs.IsUnavailable, "Start after Close")
	s.Close()
}

func TestNoLogPathNoFollower(t *testing.T) {
	s := newService(t)
	start(t, s, Source{ContainerID: "c", Driver: "none"})
	testutil.Assert(t, s.follower("c") == nil, "a container without a log path has a follower")
	drain(t, s, "c")
}

func TestDrainEndsWithItsContext(t *testing.T) {
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 5)
	o.wait(5)
	release := hold(t, o.s.follower("c"))
	want = append(want, o.engine.lines(6, 9)...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	testutil.FailsWith(t, o.s.Drain(ctx, "c"), context.DeadlineExceeded, "Drain of a follower that is held up")
	release()
	o.want(want)
}

// When another client of the engine removes a container, the container's follower ends by itself.
func TestFollowerEndsWithTheContainersDir(t *testing.T) {
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 5)
	o.wait(5)
	testutil.Must(t, os.RemoveAll(filepath.Dir(filepath.Dir(o.source.Path))))
	awaitNoFollower(t, o.s, "c")
	equalLines(t, o.log(), want)
}

func TestSaveErrorsDoNotStopTheLog(t *testing.T) {
	o := newTestLog(t, 2, 300)
	o.source.Save = func(context.Context, checkpoint.LogPosition) error { return errors.New("disk full") }
	o.start()
	var want []string
	for i := 1; i <= 20; i++ {
		want = append(want, o.engine.lines(i, i)...)
		o.wait(i)
	}
	o.want(want)
}

// TestManyFollowers follows 100 containers at once and counts the file descriptors.
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
	if used := openFiles(t) - before - n; used > 2*n+2 { // each engineLog holds one, and the watcher has two
		t.Errorf("%d followers hold %d file descriptors, want at most two each", n, used)
	}
	s.Close()
	left := openFiles(t) - before - n
	testutil.Assert(t, left <= 0, "%d file descriptors are left after Close", left)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testutil.Must(t, err)
	return len(entries)
}
