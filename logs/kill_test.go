package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// killed is a follower that was killed: its saved position is an older one, and the CRI log ends with a torn line.
type killed struct {
	t      *testing.T
	engine *engineLog
	saved  *positions
	source Source
	s      *Service
	disk   string // a small one, with the CRI log on it
}

// followed writes the lines from 1 to n and waits until they are in the CRI log.
func followed(t *testing.T, n int) *killed {
	t.Helper()
	enginePath, _ := paths(t)
	k := &killed{t: t, engine: newEngineLog(t, enginePath, 3, 1<<20), saved: &positions{}, s: newService(t), disk: smallDisk(t)}
	k.source = savedLog(enginePath, filepath.Join(k.disk, "0.log"), k.saved)
	start(t, k.s, k.source)
	k.engine.lines(1, n)
	waitLines(t, k.source.LogPath, n)
	at := k.saved.get()
	k.source.Resume = &at
	return k
}

// save makes a restart in order, so that the position is that of all lines until now.
func (k *killed) save() {
	k.t.Helper()
	k.s = restart(k.t, k.s)
	at := k.saved.get()
	k.source.Resume = &at
	start(k.t, k.s, k.source)
}

// kill ends the follower, whose last position is forgotten, in the middle of a write.
func (k *killed) kill() {
	k.t.Helper()
	k.s = restart(k.t, k.s)
	testutil.AppendFile(k.t, k.source.LogPath, "20")
}

// appendOnly is FS_APPEND_FL of linux/fs.h.
const appendOnly = 0x20

// growOnly lets the kernel refuse to shrink the CRI log, until the returned function is called.
func (k *killed) growOnly() (end func()) {
	k.t.Helper()
	file, err := os.Open(k.source.LogPath)
	if err != nil {
		k.t.Fatal(err)
	}
	set := func(flags int) error { return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags) }
	if err := set(appendOnly); err != nil {
		k.t.Fatalf("chattr +a: %v", err)
	}
	return func() {
		if err := errors.Join(set(0), file.Close()); err != nil {
			k.t.Error(err)
		}
	}
}

// want drains the output and looks whether the log holds the lines from first to last, each once.
func (k *killed) want(first, last int) {
	k.t.Helper()
	var want []string
	for i := first; i <= last; i++ {
		want = append(want, fmt.Sprintf("stdout F line %d", i))
	}
	wantLog(k.t, k.s, k.source.LogPath, want)
	if gaps := k.s.Counters().Gaps; gaps != 0 {
		k.t.Errorf("%d gaps were counted, nothing is missing", gaps)
	}
}

// A reader takes a file that has shrunk for a new one, and on a full disk nothing that was cut away can be written again.
func TestKillNeverShrinksTheLog(t *testing.T) {
	for name, position := range map[string]bool{"old position": true, "lost position": false} {
		t.Run(name, func(t *testing.T) {
			k := followed(t, 300)
			k.kill()
			if !position {
				k.source.Resume, k.source.Started = nil, true
			}
			end := k.growOnly()
			defer end()
			if err := k.s.Start(t.Context(), k.source); err != nil {
				t.Fatal(err)
			}
			k.engine.lines(301, 320)
			k.want(1, 320)
		})
	}
}

// Somebody empties the log to make room, and criadapter is killed after that.
func TestKillBehindAnEmptiedLog(t *testing.T) {
	for _, saved := range []int{0, 150} { // lines at the last saved position
		t.Run(fmt.Sprint("position at line ", saved), func(t *testing.T) {
			k := followed(t, max(saved, 1))
			if saved > 0 {
				k.save()
			}
			k.engine.lines(max(saved, 1)+1, 300)
			waitLines(t, k.source.LogPath, 300)
			truncate(t, k.source.LogPath, 0)
			k.engine.lines(301, 700)
			waitLines(t, k.source.LogPath, 400)
			k.kill()
			k.engine.lines(701, 710)
			start(t, k.s, k.source)
			k.want(301, 710)
		})
	}
}

// The marker of a gap is in the CRI log only: what is converted again does not hold it.
func TestKillBehindAMarker(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 1000)
	logPath := source.LogPath
	engine.raw(localRecord(entry{1, stdout, []byte("begun"), true}, false)) // the marker comes behind its end
	waitLines(t, logPath, 1)
	s = restart(t, s)
	engine.lines(1, 90)
	at := saved.get()
	source.Resume = &at
	start(t, s, source)
	before := readLast(t, logPath, "line 90")
	at = saved.get()
	s = restart(t, s)
	testutil.AppendFile(t, logPath, "20")
	source.Resume = &at
	start(t, s, source)
	want := append(before, engine.lines(91, 93)...)
	wantLog(t, s, logPath, want)
	oneMarker(t, want)
}

// readLast waits until the log ends with that content, and returns its lines.
func readLast(t *testing.T, path, content string) (lines []string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if _, lines = readCRI(t, path); len(lines) == 0 || lines[len(lines)-1] != "stdout F "+content {
			return fmt.Errorf("the log does not end with %q yet", content)
		}
		return nil
	})
	return lines
}

// All pieces of a long line have one time, and two streams may be written in another order than their times.
func TestLostPositionAmongEqualTimes(t *testing.T) {
	now := time.Now().UnixNano()
	piece := func(text string) entry { return entry{now, stdout, []byte(text), true} }
	late := entry{now - 1000, stderr, []byte("read before the line, written behind it"), false}
	records := []entry{
		{now - 5000, stdout, []byte("first"), false}, {now - 6000, stderr, []byte("second"), false},
		piece("z"), piece("z"), piece("z"), late, piece("z"), {now, stdout, []byte("end"), false}, late,
	}
	for written := 1; written <= len(records); written++ {
		t.Run(fmt.Sprint(written, " written"), func(t *testing.T) {
			enginePath, logPath := paths(t)
			engine := newEngineLog(t, enginePath, 2, 1<<20)
			source := localLog(enginePath, logPath)
			s := newService(t)
			start(t, s, source)
			var want []string
			for i, e := range records {
				if i == written {
					waitLines(t, logPath, written)
					s = restart(t, s)
				}
				engine.raw(localRecord(e, false))
				_, lines := splitCRI(t, e.appendCRI(nil))
				want = append(want, lines...)
			}
			waitLines(t, logPath, written)
			s = restart(t, s)
			source.Started = true
			start(t, s, source)
			wantLog(t, s, logPath, want)
		})
	}
}

// A reader that follows the log by its size, as collectors do, reads each line once.
func TestReaderOfAKilledLog(t *testing.T) {
	s, engine, source, saved := follow(t, 3, 20_000)
	logPath := source.LogPath
	reader := collect(t, logPath)
	var want []string
	for i := range 20 {
		want = append(want, engine.lines(i*50+1, i*50+30)...)
		waitLines(t, logPath, len(want))
		at := saved.get()
		s = restart(t, s)
		testutil.AppendFile(t, logPath, "20") // a write that was cut short
		want = append(want, engine.lines(i*50+31, i*50+50)...)
		source.Resume = &at
		start(t, s, source)
		waitLines(t, logPath, len(want))
	}
	drain(t, s, "c")
	text, shrunk := reader()
	if shrunk != 0 {
		t.Errorf("the log shrank %d times", shrunk)
	}
	_, got := splitCRI(t, text)
	equalLines(t, got, want)
}

// collect reads a log as it grows, and from its beginning once it has shrunk. The returned function ends that, and
// returns what was read and how often it shrank.
func collect(t *testing.T, path string) func() (text []byte, shrunk int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	var text []byte
	shrunk := 0
	go func() {
		defer close(done)
		defer file.Close()
		var at int64
		for last := false; !last; {
			last = closed(stop)
			if info, err := file.Stat(); err == nil && info.Size() < at {
				shrunk, at = shrunk+1, 0
			}
			more, _ := io.ReadAll(io.NewSectionReader(file, at, 1<<30))
			text, at = append(text, more...), at+int64(len(more))
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return func() ([]byte, int) {
		close(stop)
		<-done
		return text, shrunk
	}
}

// A log that the kubelet has rotated is complete, whatever was known of its successor.
func TestRotatedLogIsNeverCut(t *testing.T) {
	c := newRenameCase(t)
	before, err := os.ReadFile(c.rotated)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.Reopen(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	c.engine.lines(13, 13)
	waitLines(t, c.source.LogPath, 1)
	c.s = restart(t, c.s)
	c.engine.lines(14, 15)
	start(t, c.s, c.source) // from the position before the rename
	drain(t, c.s, "c")
	if after, err := os.ReadFile(c.rotated); err != nil || !slices.Equal(before, after) {
		t.Errorf("the rotated log has %d bytes, it had %d: %v", len(after), len(before), err)
	}
	c.want(c.source.LogPath, []string{"stdout F line 13", "stdout F line 14", "stdout F line 15"})
	if strings.Contains(string(before), "line 13") {
		t.Error("the rotated log was written to after the reopening")
	}
}
