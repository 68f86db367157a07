package logs

import (
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

// markerStart is the beginning of the line that marks missing output.
const markerStart = "stderr F [criadapter] output is missing here"

// oneMarker checks that exactly one line marks missing output, and returns the other lines.
func oneMarker(t *testing.T, lines []string) []string {
	t.Helper()
	var rest []string
	for _, line := range lines {
		if !strings.HasPrefix(line, markerStart) {
			rest = append(rest, line)
		}
	}
	n := len(lines) - len(rest)
	testutil.Assert(t, n == 1, "%d lines say that output is missing, want one", n)
	return rest
}

// at writes a line with a time of its own.
func (l *engineLog) at(when time.Time, e entry) {
	l.t.Helper()
	e.unixNano = when.UnixNano()
	l.raw(localRecord(e, e.partial))
}

// A container writes ten lines a second for a minute. The engine keeps about the last third of them.
func TestMarkerSaysHowMuchIsMissing(t *testing.T) {
	o := follow(t, 2, 5000)
	begin := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	line := entry{stream: stdout, line: []byte("a line of always the same length")}
	write := func(first, last int) {
		for i := first; i <= last; i++ {
			o.engine.at(begin.Add(time.Duration(i)*100*time.Millisecond), line)
		}
	}
	write(0, 19)
	o.wait(20)
	o.restart()
	write(20, 599)
	o.keepPosition()
	o.start()
	o.drain()
	got := o.log()
	lost := float64(600 - len(oneMarker(t, got)))
	counters := o.s.Counters()
	testutil.Assert(t, lost >= 300 && counters.Gaps == 1 && math.Abs(float64(counters.MissingEntries)-lost) <= lost/20,
		"%v lines are missing, %+v were counted", lost, counters)
	bytes := float64(counters.MissingBytes)
	testutil.Assert(t, math.Abs(bytes/lost-60) <= 5, "%v bytes were counted for %v lines", bytes, lost)
	marker := got[20]
	testutil.Assert(t, strings.Contains(marker, " from 2024-05-06T07:08:10.9Z to 2024-05-06T07:0") &&
		strings.Contains(marker, "entries"), "the marker says %q", marker)
}

// Readers join an unfinished line with the next entry of its stream. That entry must be neither the marker nor the end
// of another line.
func TestUnfinishedLineIsEndedBeforeTheMarker(t *testing.T) {
	o := follow(t, 2, 300)
	o.engine.raw(localRecord(entry{1, stdout, []byte("begun"), true}, false))
	o.wait(1)
	o.restart()
	o.engine.lines(1, 60)
	o.keepPosition()
	o.start()
	o.drain()
	got := o.log()
	testutil.Assert(t, got[0] == "stdout P begun" && got[1] == "stdout F " && strings.HasPrefix(got[2], markerStart),
		"the log begins with %q", got[:3])
	oneMarker(t, got)
}

// criadapter is killed before it has written the first entry. Then the container writes more than the engine keeps.
func TestGapBeforeTheFirstEntry(t *testing.T) {
	o := follow(t, 2, 300)
	testutil.Until(t, "a position is saved", func() bool { return o.saved.get().Inode != 0 })
	o.keepPosition()
	o.restart()
	testutil.Must(t, os.RemoveAll(filepath.Dir(o.source.Path)))
	newEngineLog(t, o.source.Path, 2, 300).lines(100, 110)
	o.start()
	o.drain()
	got := o.log()
	testutil.Assert(t, strings.HasPrefix(got[0], markerStart), "the log begins with %q", got[0])
	oneMarker(t, got)
}

// Lines after a torn record appear at once, even if they are shorter than the missing rest of that record.
func TestTornRecordInAQuietContainer(t *testing.T) {
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 3)
	o.engine.raw(localRecord(out(strings.Repeat("x", 16000)), false)[:100])
	want = append(want, o.engine.lines(4, 5)...)
	equalLines(t, o.wait(5), want)
	o.drain() // the bytes are counted after the write
	testutil.Equal(t, o.s.Counters().DamagedBytes, 100, "damaged bytes were counted")
}

// The log of a running container whose checkpoint was lost continues after its last entry.
func TestBegunWithoutAPosition(t *testing.T) {
	o := follow(t, 3, 2000)
	want := o.engine.lines(1, 30)
	o.wait(30)
	o.restart()
	testutil.AppendFile(t, o.source.LogPath, "2024-01-01T00:00:00Z stdout F hal") // killed in the middle of a write
	want = append(want, o.engine.lines(31, 40)...)
	o.source.Started = true
	o.start()
	want = append(want, o.engine.lines(41, 50)...)
	o.want(want)
}

// A second server on the same engine must not write a log while the first server writes it.
func TestTwoServersOneLog(t *testing.T) {
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	source := localLog(enginePath, logPath)
	first, second := newService(t), newService(t)
	start(t, first, source)
	source.Started = true
	testutil.Fails(t, second.Start(t.Context(), source), errdefs.IsFailedPrecondition, "the second")
	want := engine.lines(1, 5)
	wantLog(t, first, logPath, want)
	start(t, second, source) // the first server's follower has ended
	wantLog(t, second, logPath, want)
}

// The position is lost after a rotation. The last entry is in the rotated log, and the new log is empty.
func TestBegunWithoutAPositionBehindARotation(t *testing.T) {
	o := newLostRotation(t)
	want := o.engine.lines(31, 40)
	o.start()
	o.want(want)
}

// After a lost position, criadapter is killed again before it has skipped the entries of the rotated log.
func TestKilledAgainBehindARotation(t *testing.T) {
	o := newLostRotation(t)
	var saved []checkpoint.LogPosition
	o.source.Save = func(_ context.Context, at checkpoint.LogPosition) error {
		saved = append(saved, at)
		return nil
	}
	o.start()
	if err := o.s.Reopen(t.Context(), "c"); err != nil { // returns after the first copy
		t.Fatal(err)
	}
	o.restart()
	for _, at := range saved {
		if at.Offset == 0 { // the last position that was saved before the copy
			o.source.Resume = &at
		}
	}
	want := o.engine.lines(31, 40)
	o.start()
	o.want(want)
}

// The kubelet rotates the empty log, too, before the follower has skipped the entries of the first rotated log.
func TestReopenedBehindARotation(t *testing.T) {
	for name, torn := range map[string]string{"empty": "", "torn line": "20"} {
		t.Run(name, func(t *testing.T) {
			o := newLostRotation(t)
			testutil.WriteFile(t, o.source.LogPath, torn)
			f := newFollower(o.source, localFormat{}, o.s)
			testutil.Must(t, f.open())
			rename(t, o.source.LogPath, o.source.LogPath+".20260101-110000")
			testutil.Must(t, f.reopenOutput())
			want := o.engine.lines(31, 40)
			f.askDrain()
			f.run(t.Context())
			equalLines(t, o.log(), want)
		})
	}
}

// newLostRotation is a running container whose position was lost. Its 30 lines are in the log that was rotated last.
func newLostRotation(t *testing.T) *testLog {
	t.Helper()
	o := follow(t, 3, 1<<20)
	logPath := o.source.LogPath
	o.engine.lines(1, 30)
	o.wait(30)
	o.restart()
	// an older log, and a compressed one
	for _, rotated := range []string{".20260101-100000.gz", ".20260101-090000"} {
		testutil.Must(t, os.WriteFile(logPath+rotated, []byte("2024-01-01T00:00:00Z stdout F old\n")[:10], 0o640))
	}
	rename(t, logPath, logPath+".20260101-095959")
	o.source.Started = true
	return o
}

// The output of an ended container is not written again: an earlier follower completed the log when the container
// ended.
func TestEndedWithoutAPosition(t *testing.T) {
	for _, name := range []string{"whole", "emptied", "unfinished last line"} {
		t.Run(name, func(t *testing.T) {
			o := follow(t, 3, 1<<20)
			o.engine.lines(1, 30)
			if name == "unfinished last line" {
				o.engine.raw(localRecord(entry{time.Now().UnixNano(), stdout, []byte("begun"), true}, false))
			}
			o.drain()
			if name == "emptied" {
				empty(t, o.source.LogPath)
			}
			before, err := os.ReadFile(o.source.LogPath)
			testutil.Must(t, err)
			o.source.Started, o.source.Ended = true, true
			o.start()
			o.drain()
			testutil.Holds(t, o.source.LogPath, string(before))
		})
	}
}

func empty(t *testing.T, path string) {
	t.Helper()
	testutil.Must(t, os.Truncate(path, 0))
}
