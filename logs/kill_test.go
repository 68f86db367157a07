package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// followed writes the lines from 1 to n and waits until they are in the CRI log.
func followed(t *testing.T, n int) *testLog {
	t.Helper()
	o, _ := followOnSmallDisk(t, 3, 1<<20)
	o.engine.lines(1, n)
	o.wait(n)
	o.keepPosition()
	return o
}

// save restarts criadapter gracefully, so that the saved position is after all lines.
func (o *testLog) save() {
	o.t.Helper()
	o.restart()
	o.keepPosition()
	o.start()
}

// kill ends the follower in the middle of a write, and its last position is lost.
func (o *testLog) kill() {
	o.t.Helper()
	o.restart()
	testutil.AppendFile(o.t, o.source.LogPath, "20")
}

// appendOnly is FS_APPEND_FL of linux/fs.h.
const appendOnly = 0x20

// growOnly lets the kernel refuse to shrink the CRI log, until the returned function is called.
func (o *testLog) growOnly() (end func()) {
	o.t.Helper()
	file, err := os.Open(o.source.LogPath)
	testutil.Must(o.t, err)
	set := func(flags int) error { return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags) }
	testutil.Must(o.t, set(appendOnly), "chattr +a")
	return func() {
		testutil.Check(o.t, errors.Join(set(0), file.Close()))
	}
}

// wantNumbers drains the output and checks that the log has the lines from first to last, each once, and no gap.
func (o *testLog) wantNumbers(first, last int) {
	o.t.Helper()
	o.want(numbered(first, last))
	o.wantNoGap()
}

func (o *testLog) wantNoGap() {
	o.t.Helper()
	testutil.Equal(o.t, o.s.Counters().Gaps, 0, "gaps were counted, nothing is missing")
}

// A kill never shrinks the log. Readers take a shorter log for a new one, and a full disk has no room to write lines
// again.
func TestKillNeverShrinksTheLog(t *testing.T) {
	for name, position := range map[string]bool{"old position": true, "lost position": false} {
		t.Run(name, func(t *testing.T) {
			o := followed(t, 300)
			o.kill()
			if !position {
				o.source.Resume, o.source.Started = nil, true
			}
			end := o.growOnly()
			defer end()
			o.start()
			o.engine.lines(301, 320)
			o.wantNumbers(1, 320)
		})
	}
}

// An operator empties the log to make room, and criadapter is killed after that.
func TestKillBehindAnEmptiedLog(t *testing.T) {
	for _, saved := range []int{0, 150} { // lines at the last saved position
		t.Run(fmt.Sprint("position at line ", saved), func(t *testing.T) {
			o := followed(t, max(saved, 1))
			if saved > 0 {
				o.save()
			}
			o.engine.lines(max(saved, 1)+1, 300)
			o.wait(300)
			empty(t, o.source.LogPath)
			o.engine.lines(301, 700)
			o.wait(400)
			o.kill()
			o.engine.lines(701, 710)
			o.start()
			o.wantNumbers(301, 710)
		})
	}
}

// The marker of a gap is only in the CRI log. Converting the engine's records again does not produce it.
func TestKillBehindAMarker(t *testing.T) {
	o := follow(t, 2, 1000)
	// The marker comes after the end of this unfinished line.
	o.engine.raw(localRecord(entry{1, stdout, []byte("begun"), true}, false))
	o.wait(1)
	o.restart()
	o.engine.lines(1, 90)
	o.keepPosition()
	o.start()
	before := readLast(t, o.source.LogPath, "line 90")
	o.keepPosition()
	o.kill()
	o.start()
	want := append(before, o.engine.lines(91, 93)...)
	o.want(want)
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

// All pieces of a long line have the same time, and entries of two streams may be out of order by their times.
func TestLostPositionAmongEqualTimes(t *testing.T) {
	now := time.Now().UnixNano()
	piece := func(text string) entry { return entry{now, stdout, []byte(text), true} }
	late := entry{now - 1000, stderr, []byte("read before the line, written after it"), false}
	records := []entry{
		{now - 5000, stdout, []byte("first"), false}, {now - 6000, stderr, []byte("second"), false},
		piece("z"), piece("z"), piece("z"), late, piece("z"), {now, stdout, []byte("end"), false}, late,
	}
	for written := 1; written <= len(records); written++ {
		t.Run(fmt.Sprint(written, " written"), func(t *testing.T) {
			o := follow(t, 2, 1<<20)
			var want []string
			for i, e := range records {
				if i == written {
					o.wait(written)
					o.restart()
				}
				o.engine.raw(localRecord(e, false))
				_, lines := splitCRI(t, e.appendCRI(nil))
				want = append(want, lines...)
			}
			o.wait(written)
			o.restart()
			o.source.Started = true
			o.start()
			o.want(want)
		})
	}
}

// A reader that follows the log by its size, as collectors do, reads each line once.
func TestReaderOfAKilledLog(t *testing.T) {
	o := follow(t, 3, 20_000)
	reader := collect(t, o.source.LogPath)
	var want []string
	for i := range 20 {
		want = append(want, o.engine.lines(i*50+1, i*50+30)...)
		o.wait(len(want))
		o.keepPosition()
		o.kill()
		want = append(want, o.engine.lines(i*50+31, i*50+50)...)
		o.start()
		o.wait(len(want))
	}
	o.drain()
	text, shrunk := reader()
	testutil.Assert(t, shrunk == 0, "the log shrank %d times", shrunk)
	_, got := splitCRI(t, text)
	equalLines(t, got, want)
}

// collect reads a log as it grows, and from its beginning after it has shrunk. The returned function ends the reading.
// It returns the text and how often the log shrank.
func collect(t *testing.T, path string) func() (text []byte, shrunk int) {
	t.Helper()
	file, err := os.Open(path)
	testutil.Must(t, err)
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

// A rotated log is never changed, even if the position in its successor was not saved.
func TestRotatedLogIsNeverCut(t *testing.T) {
	c := newRenameCase(t)
	before, err := os.ReadFile(c.rotated)
	testutil.Must(t, err)
	c.killAfterReopen()
	testutil.Holds(t, c.rotated, string(before))
	equalLines(t, c.log(), numbered(13, 15))
	testutil.Assert(t, !strings.Contains(string(before), "line 13"),
		"the rotated log was written to after the reopening")
}
