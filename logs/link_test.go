package logs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// linked makes an engine's log file with this content, and a link to it at the log path. As the engine of a running
// container does, this process has the file open until the test ends.
func linked(t *testing.T, content string) (enginePath, logPath string) {
	t.Helper()
	dir := t.TempDir()
	enginePath, logPath = filepath.Join(dir, "c-json.log"), filepath.Join(dir, "pod", "c", "0.log")
	testutil.Must(t, os.WriteFile(enginePath, []byte(content), 0o640))
	engine, err := os.OpenFile(enginePath, os.O_WRONLY|os.O_APPEND, 0)
	testutil.Must(t, err)
	t.Cleanup(func() { testutil.Check(t, engine.Close()) })
	testutil.Must(t, Link(enginePath, "", logPath))
	return enginePath, logPath
}

func wantFiles(t *testing.T, dir string, n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(entries) == n, "%s holds %v (%v), want %d files", dir, entries, err, n)
}

func TestReopenLink(t *testing.T) {
	enginePath, logPath := linked(t, "first\n")
	engine, err := os.OpenFile(enginePath, os.O_WRONLY|os.O_APPEND, 0) // like the engine
	testutil.Must(t, err)
	defer engine.Close()
	rotated := logPath + ".20240101-000000"
	testutil.Must(t, os.Rename(logPath, rotated))
	is, err := IsLinked(enginePath, "", logPath)
	testutil.Assert(t, err == nil && is, "a renamed link is not found: %v, %v", is, err)
	for range 2 { // no rename precedes the second call
		testutil.Must(t, ReopenLink(t.Context(), enginePath, "", logPath, os.Getpid()))
	}
	_, err = engine.WriteString("second\n")
	testutil.Must(t, err)
	testutil.Holds(t, rotated, "first\n")
	testutil.Holds(t, logPath, "second\n")
	wantFiles(t, filepath.Dir(logPath), 2)
}

// A log that cannot be copied stays whole, and no new log is made.
func TestReopenLinkFails(t *testing.T) {
	enginePath, logPath := linked(t, "first\n")
	rotated := logPath + ".20240101-000000"
	testutil.Must(t, os.Rename(logPath, rotated))
	testutil.Must(t, os.MkdirAll(filepath.Join(hidden(logPath, copySuffix), "taken"), 0o755))
	err := ReopenLink(t.Context(), enginePath, "", logPath, os.Getpid())
	testutil.Assert(t, err != nil, "no error")
	_, err = os.Lstat(logPath)
	testutil.Assert(t, errors.Is(err, os.ErrNotExist), "a new log was made: %v", err)
	testutil.Holds(t, rotated, "first\n")
	testutil.Holds(t, enginePath, "first\n")
}

func TestLinkReplacesOnlyLinks(t *testing.T) {
	enginePath, logPath := linked(t, "")
	testutil.Check(t, Link(enginePath+"2", "", logPath), "replacing a link")
	target, err := os.Readlink(logPath)
	testutil.Assert(t, err == nil && target == enginePath+"2", "the link leads to %q, %v", target, err)
	is, err := IsLinked(enginePath, "", logPath)
	testutil.Assert(t, err == nil && !is, "a link to another file: %v, %v", is, err)
	for name, make := range map[string]func(string) error{
		"file":      func(path string) error { return os.WriteFile(path, []byte("kept"), 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "0.log")
		testutil.Must(t, make(path))
		testutil.Fails(t, Link(enginePath, "", path), errdefs.IsFailedPrecondition, "%s at the log path", name)
	}
}
