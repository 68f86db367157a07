package logs

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// renameCase is a kill at some point of the kubelet's rotation.
type renameCase struct {
	t          *testing.T
	engine     *engineLog
	saved      *positions
	source     Source
	s          *Service
	rotated    string
	beforeKill []string
}

// newRenameCase writes ten lines, lets the kubelet rename the log, writes two more and kills criadapter.
func newRenameCase(t *testing.T) *renameCase {
	enginePath, logPath := paths(t)
	c := &renameCase{t: t, engine: newEngineLog(t, enginePath, 2, 1<<20), saved: &positions{}, s: newService(t)}
	c.rotated = logPath + ".20240101-000000"
	c.source = savedLog(enginePath, logPath, c.saved)
	start(t, c.s, c.source)
	c.beforeKill = c.engine.lines(1, 10)
	waitLines(t, logPath, 10)
	at := c.saved.get()
	c.source.Resume = &at
	c.rename(logPath, c.rotated)
	c.beforeKill = append(c.beforeKill, c.engine.lines(11, 12)...)
	waitLines(t, c.rotated, 12)
	return c
}

func (c *renameCase) rename(from, to string) {
	c.t.Helper()
	if err := os.Rename(from, to); err != nil {
		c.t.Fatal(err)
	}
}

// restart starts criadapter again while the container goes on.
func (c *renameCase) restart() {
	c.t.Helper()
	c.s = restart(c.t, c.s)
	c.beforeKill = append(c.beforeKill, c.engine.lines(13, 15)...)
	start(c.t, c.s, c.source)
}

func (c *renameCase) want(path string, want []string) {
	c.t.Helper()
	_, got := readCRI(c.t, path)
	equalLines(c.t, got, want)
}

// The kubelet's request did not arrive: it renames the file back.
func TestKillBetweenRenameAndReopenThenRenamedBack(t *testing.T) {
	c := newRenameCase(t)
	c.restart()
	waitLines(t, c.rotated, 15)
	if _, err := os.Lstat(c.source.LogPath); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a new log was made that the kubelet would rename over: %v", err)
	}
	c.rename(c.rotated, c.source.LogPath)
	want := append(c.beforeKill, c.engine.lines(16, 17)...)
	drain(t, c.s, "c")
	c.want(c.source.LogPath, want)
}

// The kubelet was restarted as well: it asks again for a log that is not there.
func TestKillBetweenRenameAndReopenThenReopened(t *testing.T) {
	c := newRenameCase(t)
	c.restart()
	waitLines(t, c.rotated, 15)
	if err := c.s.Reopen(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	after := c.engine.lines(16, 17)
	drain(t, c.s, "c")
	c.want(c.rotated, c.beforeKill)
	c.want(c.source.LogPath, after)
}

// The new file was made, and the kill came before its position was saved: what
// was in the old file is cut back, and goes on in the new one.
func TestKillBetweenReopenAndItsPosition(t *testing.T) {
	c := newRenameCase(t)
	if err := c.s.Reopen(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	c.engine.lines(13, 13)
	waitLines(t, c.source.LogPath, 1)
	c.s = restart(t, c.s)
	c.engine.lines(14, 15)
	start(t, c.s, c.source) // from the position before the rename
	drain(t, c.s, "c")
	_, old := readCRI(t, c.rotated)
	_, now := readCRI(t, c.source.LogPath)
	var want []string
	for i := 1; i <= 15; i++ {
		want = append(want, fmt.Sprintf("stdout F line %d", i))
	}
	equalLines(t, append(old, now...), want)
}

// Somebody has put another file in the log's place: it is not cut.
func TestForeignFileAtTheLogPath(t *testing.T) {
	c := newRenameCase(t)
	c.s = restart(t, c.s)
	foreign := "2024-01-01T00:00:00Z stdout F of somebody else\n"
	if err := errors.Join(os.WriteFile(c.source.LogPath, []byte(foreign), 0o640), os.Remove(c.rotated)); err != nil {
		t.Fatal(err)
	}
	at := *c.source.Resume
	c.engine.lines(13, 14)
	start(t, c.s, c.source)
	drain(t, c.s, "c")
	_, got := readCRI(t, c.source.LogPath)
	if got[0] != "stdout F of somebody else" || got[len(got)-1] != "stdout F line 14" {
		t.Errorf("the log holds %q", got)
	}
	if now := c.saved.get(); now.OutputInode == at.OutputInode {
		t.Error("the position names the file that is gone")
	}
}
