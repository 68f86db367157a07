package container

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestCheckpointOfAProcessThatHasEnded: a process that ends between the check of its state and the dump has no root
// directory any more.
func TestCheckpointOfAProcessThatHasEnded(t *testing.T) {
	n, _ := newFakeNode(t)
	n.proc = t.TempDir()
	err := n.saveFiles(t.Context(), 1, nil, "archive")
	testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
}

// TestCheckpointThatCannotBeWritten: an error of the file system becomes ErrFailedPrecondition, and nil stays nil.
func TestCheckpointThatCannotBeWritten(t *testing.T) {
	for _, err := range []error{&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission},
		&os.LinkError{Op: "rename", Old: "/x", New: "/y", Err: fs.ErrExist}} {
		got := notWritable(err)
		testutil.Assert(t, errdefs.IsFailedPrecondition(got), "%v became %v", err, got)
	}
	testutil.Assert(t, notWritable(nil) == nil, "nil became an error")
}

// TestCheckpointInAUserNamespace: the refused checkpoint pauses no container, and leaves no file beside the archive.
func TestCheckpointInAUserNamespace(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	n.withFiles(engine, id)
	// The record needs the user namespace as well: a late start event makes the cache read the record again.
	testutil.Must(t, n.store.Update(t.Context(), pod, func(r *checkpoint.Record) error {
		r.UserNamespace = "/run/u"
		return nil
	}))
	mapped := *n.knownPod(pod)
	mapped.Status.UserNamespace = "/run/u"
	n.cache.PutPod(mapped)
	dir := t.TempDir()
	for call, err := range map[string]error{
		"one": n.Checkpoint(t.Context(), id, filepath.Join(dir, "a.tar")),
		"all": n.CheckpointAll(t.Context(), pod, []string{id}, dir),
	} {
		testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "user namespace"),
			"%s: %v", call, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 || engine.Calls("PauseContainer") != 0 {
		t.Errorf("the directory has %v, %v, after %d pauses", left, err, engine.Calls("PauseContainer"))
	}
}

// TestCheckpointOfAPausedContainer: a container that a user has paused stays paused, even if the engine's answer is
// lost.
func TestCheckpointOfAPausedContainer(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	testutil.Must(t, engine.PauseContainer(t.Context(), id))
	engine.Inject("PauseContainer", dockertest.Fault{Err: errdefs.ErrUnavailable, Times: 1})
	err := n.CheckpointAll(t.Context(), pod, []string{id}, t.TempDir())
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "is paused"), "%v", err)
	inspect, err := engine.InspectContainer(t.Context(), id)
	testutil.Assert(t, err == nil && inspect.State.Paused, "the container runs on: %v", err)
}

// TestPauseThatTheEngineDidNotDo: if the pause fails, its error is the only one. Undoing a pause that did not happen
// causes no error.
func TestPauseThatTheEngineDidNotDo(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	engine.Inject("PauseContainer", dockertest.Fault{Err: errdefs.ErrUnavailable, Times: 1})
	err := n.CheckpointAll(t.Context(), pod, []string{id}, t.TempDir())
	testutil.Assert(t, errdefs.IsUnavailable(err) && !strings.Contains(err.Error(), "not paused"), "%v", err)
}
