package kuberuntime

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRemoveLogs: logs of other owners stay, and the empty root is removed.
func TestRemoveLogs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "logs")
	for name, owner := range map[string]string{"a": "us", "b": "them"} {
		testutil.Must(t, markLogs(filepath.Join(root, name), owner))
	}
	foreign := filepath.Join(root, "foreign")
	testutil.Must(t, os.Mkdir(foreign, 0o755))
	for range 2 {
		testutil.Must(t, RemoveLogs(root, "us"))
		for name, want := range map[string]bool{"a": false, "b": true, "foreign": true} {
			_, err := os.Stat(filepath.Join(root, name))
			testutil.Assert(t, (err == nil) == want, "%s: %v", name, err)
		}
	}
	testutil.Must(t, os.Remove(foreign))
	for range 2 {
		testutil.Must(t, RemoveLogs(root, "them"))
	}
	testutil.Gone(t, root, "the empty root")
}

// TestMarkOfLogs: the mark of a log directory is written once, since a second write could empty it on a full disk. A
// directory that cannot be marked is removed.
func TestMarkOfLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	mark := filepath.Join(dir, ownerFile)
	testutil.Must(t, markLogs(dir, "us"))
	written := time.Unix(1000, 0)
	testutil.Must(t, os.Chtimes(mark, written, written))
	testutil.Must(t, markLogs(dir, "us"))
	info, err := os.Stat(mark)
	testutil.Assert(t, err == nil && info.ModTime().Equal(written) && ours(dir, "us"), "written again: %v, %v", info,
		err)
	testutil.Must(t, os.Remove(mark))
	testutil.Must(t, os.Mkdir(mark, 0o700)) // no file can be written there
	testutil.Assert(t, markLogs(dir, "us") != nil, "the directory is marked")
	testutil.Gone(t, dir, "the directory without a mark")
}
