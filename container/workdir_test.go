package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestCheckpointIsRemovedAfterACrash: criadapter ends while it writes a checkpoint. Files of other programs with
// similar names stay.
func TestCheckpointIsRemovedAfterACrash(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, parent := n.pod(), t.TempDir()
	dir, _, err := n.makeWorkDir(t.Context(), pod, parent)
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(dir, "content/checkpoint/pages-1.img"), "memory")
	testutil.Must(t, n.markWorkDir(t.Context(), pod, filepath.Join(parent, ".checkpoint-not-made"), true))
	other := filepath.Join(parent, ".checkpoint-1")
	testutil.WriteFile(t, other, "another program's")
	testutil.Equal(t, len(n.leftWorkDirs(t.Context(), pod)), 1, "directories that no running checkpoint has")
	n.restart(func() {})
	n.background("Watch", n.Watch)
	testutil.Until(t, "the record names no directory", func() bool {
		return len(n.leftWorkDirs(t.Context(), pod)) == 0
	})
	_, err = os.Lstat(dir)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "the directory is left: %v", err)
	testutil.Holds(t, other, "another program's", "the other file")
}

// TestCheckpointLeavesNoDirectory: no working directory is left on disk or in the record, even if a step fails.
func TestCheckpointLeavesNoDirectory(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.running("sleep")
	n.withFiles(engine, id)
	parent := t.TempDir()
	location := filepath.Join(parent, "checkpoint.tar")
	testutil.Must(t, os.MkdirAll(filepath.Join(location, "in the way"), 0o700))
	for call, fault := range map[string]dockertest.Fault{
		"none": {}, "CreateCheckpoint": {Times: 1}, "ListChanges": {Times: 1},
	} {
		engine.Inject(call, fault)
		testutil.Assert(t, n.Checkpoint(t.Context(), id, location) != nil, "%s: there is an archive", call)
		left, err := os.ReadDir(parent)
		testutil.Assert(t, err == nil && len(left) == 1, "%s: left are %v, %v", call, left, err)
	}
	testutil.Must(t, os.RemoveAll(location))
	testutil.Must(t, n.Checkpoint(t.Context(), id, location))
	record, err := n.store.Load(t.Context(), n.look(id).SandboxID)
	testutil.Must(t, err)
	testutil.Equal(t, len(record.CheckpointDirs), 0, "directories in the record")
}

// TestCheckpointNeedsTheRecord: no directory is made that cannot be recorded.
func TestCheckpointNeedsTheRecord(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, parent := n.pod(), t.TempDir()
	n.withoutStore(func() {
		_, _, err := n.makeWorkDir(t.Context(), pod, parent)
		testutil.Assert(t, err != nil, "makeWorkDir succeeded without a record")
	})
	left, err := os.ReadDir(parent)
	testutil.Assert(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
}

// TestCheckpointWithoutADirectory: the request is wrong only if it names no directory. The kernel makes none in /sys.
func TestCheckpointWithoutADirectory(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, file := n.pod(), filepath.Join(t.TempDir(), "file")
	testutil.WriteFile(t, file, "")
	for parent, is := range map[string]func(error) bool{
		filepath.Join(t.TempDir(), "missing"): errdefs.IsInvalidArgument,
		file:                                  errdefs.IsInvalidArgument,
		"/sys":                                errdefs.IsFailedPrecondition,
	} {
		_, _, err := n.makeWorkDir(t.Context(), pod, parent)
		testutil.Assert(t, is(err) && strings.HasPrefix(err.Error(), "location: "), "%s: %v", parent, err)
		testutil.Equal(t, len(n.leftWorkDirs(t.Context(), pod)), 0, "%s: directories in the record", parent)
	}
}
