package logs

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

// markerStart is how the line begins that stands for missing output.
const markerStart = "stderr F [criadapter] output is missing here"

// oneMarker checks that exactly one line stands for missing output and returns the others.
func oneMarker(t *testing.T, lines []string) []string {
	t.Helper()
	var rest []string
	for _, line := range lines {
		if !strings.HasPrefix(line, markerStart) {
			rest = append(rest, line)
		}
	}
	if n := len(lines) - len(rest); n != 1 {
		t.Errorf("%d lines say that output is missing, want one", n)
	}
	return rest
}

// at writes a line with a time of its own.
func (l *engineLog) at(when time.Time, e entry) {
	l.t.Helper()
	e.unixNano = when.UnixNano()
	l.raw(localRecord(e, e.partial))
}

// A container writes ten lines a second for a minute; the engine keeps about the last third.
func TestMarkerSaysHowMuchIsMissing(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 5000)
	logPath := source.LogPath
	begin := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	line := entry{stream: stdout, line: []byte("a line of always the same length")}
	write := func(first, last int) {
		for i := first; i <= last; i++ {
			engine.at(begin.Add(time.Duration(i)*100*time.Millisecond), line)
		}
	}
	write(0, 19)
	waitLines(t, logPath, 20)
	s = restart(t, s)
	write(20, 599)
	at := saved.get()
	source.Resume = &at
	start(t, s, source)
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	lost := float64(600 - len(oneMarker(t, got)))
	counters := s.Counters()
	if lost < 300 || counters.Gaps != 1 || math.Abs(float64(counters.MissingEntries)-lost) > lost/20 {
		t.Errorf("%v lines are missing, %+v were counted", lost, counters)
	}
	if bytes := float64(counters.MissingBytes); math.Abs(bytes/lost-60) > 5 {
		t.Errorf("%v bytes were counted for %v lines", bytes, lost)
	}
	if marker := got[20]; !strings.Contains(marker, " from 2024-05-06T07:08:10.9Z to 2024-05-06T07:0") || !strings.Contains(marker, "entries") {
		t.Errorf("the marker says %q", marker)
	}
}

// Readers join an unfinished line with the next entry: it must not be the marker, nor the end of another line.
func TestUnfinishedLineIsEndedBeforeTheMarker(t *testing.T) {
	s, engine, source, saved := follow(t, 2, 300)
	logPath := source.LogPath
	engine.raw(localRecord(entry{1, stdout, []byte("begun"), true}, false))
	waitLines(t, logPath, 1)
	s = restart(t, s)
	engine.lines(1, 60)
	at := saved.get()
	source.Resume = &at
	start(t, s, source)
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	if got[0] != "stdout P begun" || got[1] != "stdout F " || !strings.HasPrefix(got[2], markerStart) {
		t.Errorf("the log begins with %q", got[:3])
	}
	oneMarker(t, got)
}

// A kill before the first entry was written, and then more output than the engine keeps.
func TestGapBeforeTheFirstEntry(t *testing.T) {
	enginePath, logPath := paths(t)
	newEngineLog(t, enginePath, 2, 300)
	saved := &positions{}
	source := savedLog(enginePath, logPath, saved)
	s := newService(t)
	start(t, s, source)
	testutil.Eventually(t, func() error {
		if saved.get().Inode == 0 {
			return os.ErrNotExist
		}
		return nil
	})
	at := saved.get()
	s = restart(t, s)
	if err := os.RemoveAll(filepath.Dir(enginePath)); err != nil {
		t.Fatal(err)
	}
	newEngineLog(t, enginePath, 2, 300).lines(100, 110)
	source.Resume = &at
	start(t, s, source)
	drain(t, s, "c")
	_, got := readCRI(t, logPath)
	if !strings.HasPrefix(got[0], markerStart) {
		t.Errorf("the log begins with %q", got[0])
	}
	oneMarker(t, got)
}

// Lines behind a torn record appear at once, although the container then writes less than the rest of that record.
func TestTornRecordInAQuietContainer(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 3)
	engine.raw(localRecord(out(strings.Repeat("x", 16000)), false)[:100])
	want = append(want, engine.lines(4, 5)...)
	equalLines(t, waitLines(t, logPath, 5), want)
	drain(t, s, "c") // the bytes are counted behind the write
	if n := s.Counters().DamagedBytes; n != 100 {
		t.Errorf("%d damaged bytes were counted, want 100", n)
	}
}

// A running container whose checkpoint was lost goes on behind its last entry.
func TestBegunWithoutAPosition(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 3, 2000)
	source := localLog(enginePath, logPath)
	s := newService(t)
	start(t, s, source)
	want := engine.lines(1, 30)
	waitLines(t, logPath, 30)
	s = restart(t, s)
	testutil.AppendFile(t, logPath, "2024-01-01T00:00:00Z stdout F hal") // killed in the middle of a write
	want = append(want, engine.lines(31, 40)...)
	source.Started = true
	start(t, s, source)
	want = append(want, engine.lines(41, 50)...)
	wantLog(t, s, logPath, want)
}

// Two servers on one engine: the second must not write what the first writes.
func TestTwoServersOneLog(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	source := localLog(enginePath, logPath)
	first, second := newService(t), newService(t)
	start(t, first, source)
	source.Started = true
	if err := second.Start(t.Context(), source); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("the second: %v", err)
	}
	want := engine.lines(1, 5)
	wantLog(t, first, logPath, want)
	start(t, second, source) // the first has ended
	wantLog(t, second, logPath, want)
}

// The same behind a rotation, when its log is empty.
func TestBegunWithoutAPositionBehindARotation(t *testing.T) {
	c := newLostRotation(t)
	want := c.engine.lines(31, 40)
	start(t, c.s, c.source)
	wantLog(t, c.s, c.source.LogPath, want)
}

// And it is killed again before it has passed over what is in the rotated log.
func TestKilledAgainBehindARotation(t *testing.T) {
	c := newLostRotation(t)
	var saved []checkpoint.LogPosition
	c.source.Save = func(_ context.Context, at checkpoint.LogPosition) error {
		saved = append(saved, at)
		return nil
	}
	start(t, c.s, c.source)
	if err := c.s.Reopen(t.Context(), "c"); err != nil { // answered behind the first copy
		t.Fatal(err)
	}
	c.s = restart(t, c.s)
	for _, at := range saved {
		if at.Offset == 0 { // the last that was saved before the copy
			c.source.Resume = &at
		}
	}
	want := c.engine.lines(31, 40)
	start(t, c.s, c.source)
	wantLog(t, c.s, c.source.LogPath, want)
}

// The kubelet rotates the empty log as well, before what is in the rotated one was passed over.
func TestReopenedBehindARotation(t *testing.T) {
	for name, torn := range map[string]string{"empty": "", "torn line": "20"} {
		t.Run(name, func(t *testing.T) {
			c := newLostRotation(t)
			testutil.WriteFile(t, c.source.LogPath, torn)
			f := newFollower(c.source, localFormat{}, c.s)
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(c.source.LogPath, c.source.LogPath+".20260101-110000"); err != nil {
				t.Fatal(err)
			}
			if err := f.reopenOutput(); err != nil {
				t.Fatal(err)
			}
			want := c.engine.lines(31, 40)
			f.askDrain()
			f.run(t.Context())
			_, got := readCRI(t, c.source.LogPath)
			equalLines(t, got, want)
		})
	}
}

// lostRotation is a running container whose position was lost. Its 30 lines are in the log that was rotated last.
type lostRotation struct {
	engine *engineLog
	source Source
	s      *Service
}

func newLostRotation(t *testing.T) *lostRotation {
	t.Helper()
	enginePath, logPath := paths(t)
	c := &lostRotation{engine: newEngineLog(t, enginePath, 3, 1<<20), s: newService(t)}
	c.source = localLog(enginePath, logPath)
	start(t, c.s, c.source)
	c.engine.lines(1, 30)
	waitLines(t, logPath, 30)
	c.s = restart(t, c.s)
	for _, rotated := range []string{".20260101-100000.gz", ".20260101-090000"} { // an older one, and one that cannot be read as it is
		if err := os.WriteFile(logPath+rotated, []byte("2024-01-01T00:00:00Z stdout F old\n")[:10], 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(logPath, logPath+".20260101-095959"); err != nil {
		t.Fatal(err)
	}
	c.source.Started = true
	return c
}

// Of a container that has ended, nothing is written a second time: the one who was there at its end has written all.
func TestEndedWithoutAPosition(t *testing.T) {
	for _, name := range []string{"whole", "emptied", "unfinished last line"} {
		t.Run(name, func(t *testing.T) {
			enginePath, logPath := paths(t)
			engine := newEngineLog(t, enginePath, 3, 1<<20)
			source := localLog(enginePath, logPath)
			s := newService(t)
			start(t, s, source)
			engine.lines(1, 30)
			if name == "unfinished last line" {
				engine.raw(localRecord(entry{time.Now().UnixNano(), stdout, []byte("begun"), true}, false))
			}
			drain(t, s, "c")
			if name == "emptied" {
				truncate(t, logPath, 0)
			}
			before, err := os.ReadFile(logPath)
			if err != nil {
				t.Fatal(err)
			}
			source.Started, source.Ended = true, true
			start(t, s, source)
			drain(t, s, "c")
			after, err := os.ReadFile(logPath)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, after) {
				t.Errorf("the log of %d bytes has now %d", len(before), len(after))
			}
		})
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}
