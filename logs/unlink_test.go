package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// linkedLog is a json-file of two generations with the lines 0 to 9, and a link to it.
type linkedLog struct {
	engine, path string
	count        int
}

func newLinkedLog(t *testing.T) *linkedLog {
	t.Helper()
	dir := t.TempDir()
	l := &linkedLog{engine: filepath.Join(dir, "engine", "x-json.log"), path: filepath.Join(dir, "pod", "0.log")}
	for _, path := range []string{l.engine, l.path} {
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	}
	l.write(t, 5)
	testutil.Must(t, os.Rename(l.engine, l.engine+".1"))
	l.write(t, 5)
	testutil.Must(t, os.Symlink(l.engine, l.path))
	return l
}

// write appends n lines of equal length. Every third line consists of two records.
func (l *linkedLog) write(t *testing.T, n int) {
	t.Helper()
	file, err := os.OpenFile(l.engine, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	testutil.Must(t, err)
	defer file.Close()
	for range n {
		at := time.Unix(1_700_000_000+int64(l.count), 1).UTC().Format(time.RFC3339Nano)
		if l.count%3 == 2 {
			fmt.Fprintf(file, `{"log":"part ","stream":"stdout","time":"%s"}`+"\n", at)
		}
		fmt.Fprintf(file, `{"log":"line %d\n","stream":"stdout","time":"%s"}`+"\n", l.count, at)
		l.count++
	}
}

func (l *linkedLog) lines(from int) []string {
	var lines []string
	for i := from; i < l.count; i++ {
		if i%3 == 2 {
			lines = append(lines, "stdout P part ")
		}
		lines = append(lines, fmt.Sprintf("stdout F line %d", i))
	}
	return lines
}

func TestUnlinkBoundsTheHistory(t *testing.T) {
	size := int64(len(`{"log":"line 9\n","stream":"stdout","time":"2023-11-14T22:13:29.000000001Z"}` + "\n"))
	for _, tc := range []struct {
		name    string
		history int64
		from    int // the first line that is converted
	}{
		{"none", 0, 10},
		{"a bit of a line", 1, 9},
		{"a line", size, 9},
		{"into a line of two records", 2 * size, 8},
		{"in the middle of such a line", size + 1, 8},
		{"into the rotated file", 7*size + 1, 4},
		{"everything", 1 << 30, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLinkedLog(t)
			u, err := Unlink(l.engine, "", l.path, tc.history)
			testutil.Must(t, err)
			testutil.Require(t, LinkedTo(l.engine, l.path), "the link is gone before Commit")
			testutil.Must(t, u.Commit())
			l.write(t, 3) // before the follower starts
			s := newService(t)
			start(t, s,
				Source{ContainerID: "c", Driver: DriverJSONFile, Path: l.engine, LogPath: l.path, Started: true,
					Resume: &u.Position})
			wantLog(t, s, l.path, l.lines(tc.from))
		})
	}
}

func TestUnlinkAgainAfterACrash(t *testing.T) {
	l := newLinkedLog(t)
	_, err := Unlink(l.engine, "", l.path, 0)
	testutil.Must(t, err)
	u, err := Unlink(l.engine, "", l.path, 1<<20)
	testutil.Must(t, err)
	oldest, err := os.Stat(l.engine + ".1")
	testutil.Must(t, err)
	testutil.Assert(t, u.Position.Inode == inodeOf(oldest) && u.Position.Offset == 0,
		"the history begins at %+v, want the beginning of the oldest file", u.Position)
	kept, err := EngineHistory(l.engine)
	want := int64(len(testutil.ReadFile(t, l.engine+".1") + testutil.ReadFile(t, l.engine)))
	testutil.Assert(t, err == nil && kept == want, "the history has %d bytes, want %d, %v", kept, want, err)
	testutil.Must(t, u.Commit())
	entries, err := os.ReadDir(filepath.Dir(l.path))
	testutil.Assert(t, err == nil && len(entries) == 1, "the directory holds %v, %v", entries, err)
}

func TestUnlinkOfAContainerWithoutOutput(t *testing.T) {
	l := newLinkedLog(t)
	for _, path := range []string{l.engine, l.engine + ".1"} {
		testutil.Must(t, os.Remove(path))
	}
	l.count = 0
	u, err := Unlink(l.engine, "", l.path, 100)
	testutil.Must(t, err)
	testutil.Must(t, u.Commit())
	l.write(t, 4)
	saved := u.Position
	s := newService(t)
	start(t, s,
		Source{ContainerID: "c", Driver: DriverJSONFile, Path: l.engine, LogPath: l.path, Started: true,
			Resume: &saved})
	wantLog(t, s, l.path, l.lines(0))
}

func TestRelink(t *testing.T) {
	l := newLinkedLog(t)
	u, err := Unlink(l.engine, "", l.path, 0)
	testutil.Must(t, err)
	testutil.Must(t, u.Commit())
	testutil.WriteFile(t, l.path, "2023-11-14T22:13:29Z stdout F kept\n")
	for range 2 {
		testutil.Must(t, Relink(l.engine, "", l.path))
	}
	testutil.Assert(t, LinkedTo(l.engine, l.path), "the log is not a link")
	rotated, err := rotatedLogs(l.path)
	testutil.Require(t, err == nil && len(rotated) == 1,
		"got %v, %v; want the log under one rotated name", rotated, err)
	content, err := os.ReadFile(rotated[0])
	testutil.Assert(t, err == nil && strings.Contains(string(content), "kept"), "got %q, %v", content, err)
}

// freeName returns no name that it cannot check, because a file may have it.
func TestFreeNameThatCannotBeChecked(t *testing.T) {
	dir := t.TempDir()
	top, err := os.OpenRoot(dir)
	testutil.Must(t, err)
	defer top.Close() // only read
	name, err := freeName(top, "0.log")
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(dir, name), "rotated before")
	other, err := freeName(top, "0.log")
	testutil.Assert(t, err == nil && other != name, "freeName returned %q (%v), which is taken", other, err)
	_, err = freeName(top, strings.Repeat("x", 250)) // with the suffix, the name is too long
	testutil.FailsWith(t, err, unix.ENAMETOOLONG, "freeName")
}
