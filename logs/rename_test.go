package logs

import (
	"errors"
	"os"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// renameCase is a log whose criadapter is killed during the kubelet's rotation.
type renameCase struct {
	*testLog
	rotated    string
	beforeKill []string
}

// newRenameCase writes ten lines, renames the log like the kubelet and writes two more lines.
func newRenameCase(t *testing.T) *renameCase {
	c := &renameCase{testLog: follow(t, 2, 1<<20)}
	c.rotated = c.source.LogPath + ".20240101-000000"
	c.beforeKill = c.engine.lines(1, 10)
	c.wait(10)
	c.keepPosition()
	rename(t, c.source.LogPath, c.rotated)
	c.beforeKill = append(c.beforeKill, c.engine.lines(11, 12)...)
	waitLines(t, c.rotated, 12)
	return c
}

// goOn kills criadapter, writes three more lines and starts criadapter again. The lines go to the renamed log.
func (c *renameCase) goOn() {
	c.t.Helper()
	c.restart()
	c.beforeKill = append(c.beforeKill, c.engine.lines(13, 15)...)
	c.start()
	waitLines(c.t, c.rotated, 15)
}

// killAfterReopen reopens the log, and kills criadapter before the position in the new file is saved.
func (c *renameCase) killAfterReopen() {
	c.t.Helper()
	testutil.Must(c.t, c.s.Reopen(c.t.Context(), "c"))
	c.engine.lines(13, 13)
	c.wait(1)
	c.restart()
	c.engine.lines(14, 15)
	c.start() // from the position before the rename
	c.drain()
}

// ReopenContainerLog did not arrive, so the kubelet renames the file back.
func TestKillBetweenRenameAndReopenThenRenamedBack(t *testing.T) {
	c := newRenameCase(t)
	c.goOn()
	_, err := os.Lstat(c.source.LogPath)
	testutil.Assert(t, errors.Is(err, os.ErrNotExist), "a new log was made that the kubelet would rename over: %v", err)
	rename(t, c.rotated, c.source.LogPath)
	c.want(append(c.beforeKill, c.engine.lines(16, 17)...))
}

// The kubelet was restarted, too. It calls ReopenContainerLog although there is no log to rename.
func TestKillBetweenRenameAndReopenThenReopened(t *testing.T) {
	c := newRenameCase(t)
	c.goOn()
	testutil.Must(t, c.s.Reopen(t.Context(), "c"))
	after := c.engine.lines(16, 17)
	c.want(after)
	wantLines(t, c.rotated, c.beforeKill)
}

// criadapter is killed after it made the new file and before it saved the new position. The two files together hold
// each line once.
func TestKillBetweenReopenAndItsPosition(t *testing.T) {
	c := newRenameCase(t)
	c.killAfterReopen()
	_, old := readCRI(t, c.rotated)
	equalLines(t, append(old, c.log()...), numbered(1, 15))
}

// A foreign file at the log path is not truncated.
func TestForeignFileAtTheLogPath(t *testing.T) {
	c := newRenameCase(t)
	c.restart()
	foreign := "2024-01-01T00:00:00Z stdout F foreign\n"
	testutil.Must(t, errors.Join(os.WriteFile(c.source.LogPath, []byte(foreign), 0o640), os.Remove(c.rotated)))
	at := *c.source.Resume
	c.engine.lines(13, 14)
	c.start()
	c.drain()
	got := c.log()
	testutil.Assert(t, got[0] == "stdout F foreign" && got[len(got)-1] == "stdout F line 14", "the log holds %q", got)
	testutil.Assert(t, c.saved.get().OutputInode != at.OutputInode, "the position names the file that is gone")
}
