package container

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// watched restarts criadapter, and runs Watch until the pod's record marks no container as paused.
func (n *node) watched(sandboxID string, meanwhile func()) {
	n.t.Helper()
	n.restart(meanwhile)
	n.background("Watch", n.Watch)
	testutil.Until(n.t, "no container is left paused", func() bool {
		return len(n.leftPaused(n.t.Context(), sandboxID)) == 0
	})
}

// wantPaused checks whether the engine has paused a container, and which marks its pod's record has.
func (n *node) wantPaused(id string, paused bool, marks ...string) {
	n.t.Helper()
	inspect, err := n.engine.InspectContainer(n.t.Context(), id)
	testutil.Must(n.t, err)
	testutil.Equal(n.t, inspect.State.Paused, paused, "paused")
	got := n.leftPaused(n.t.Context(), n.look(id).SandboxID)
	testutil.Equal(n.t, strings.Join(got, " "), strings.Join(marks, " "), "the marks")
}

// TestPausedForACheckpointIsResumedAfterACrash: criadapter ends during CheckpointPod. It has paused one container, and
// has marked another one but not paused it yet. The engine refuses the first unpause.
func TestPausedForACheckpointIsResumedAfterACrash(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	other := n.started(pod, withAttempt(n.config("sleep"), 1))
	testutil.Must(t, n.Service.pause(t.Context(), pod, id))
	testutil.Must(t, n.markPaused(t.Context(), pod, other, true))
	n.wantPaused(id, true, id, other)
	engine.Inject("UnpauseContainer", dockertest.Fault{Object: id, Err: errdefs.ErrInternal, Times: 1})
	n.watched(pod, func() {})
	n.wantPaused(id, false)
	n.wantPaused(other, false)
	testutil.Must(t, n.Service.pause(t.Context(), pod, id), "the repeated request")
	n.wantPaused(id, true, id)
	testutil.Must(t, n.unpause(t.Context(), pod, id))
	n.wantPaused(id, false)
}

// TestPausedForACheckpointIsGoneAfterACrash: the mark of a removed container is dropped.
func TestPausedForACheckpointIsGoneAfterACrash(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	testutil.Must(t, n.Service.pause(t.Context(), pod, id))
	n.watched(pod, func() { testutil.Must(t, engine.RemoveContainer(t.Context(), id)) })
}

// TestPausedByAUserStaysPaused: before a checkpoint, or while it begins, a user pauses the container.
func TestPausedByAUserStaysPaused(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			n, engine := newDumpNode(t)
			pod, id := n.runningInPod()
			if before {
				testutil.Must(t, engine.PauseContainer(t.Context(), id))
			} else { // the engine answers as if a user had just paused it
				engine.Inject("PauseContainer", dockertest.Fault{Err: errdefs.ErrConflict, Times: 1})
			}
			testutil.Assert(t, n.Service.pause(t.Context(), pod, id) != nil, "a container was paused twice")
			if !before {
				testutil.Must(t, engine.PauseContainer(t.Context(), id))
			}
			n.wantPaused(id, true)
			n.watched(pod, func() {})
			n.wantPaused(id, true)
		})
	}
}

// notResumed makes a container that a checkpoint has paused. The engine refuses once to resume it.
func (n *node) notResumed(engine *dockertest.Engine) (pod, id string) {
	n.t.Helper()
	pod, id = n.runningInPod()
	testutil.Must(n.t, n.Service.pause(n.t.Context(), pod, id))
	engine.Inject("UnpauseContainer", dockertest.Fault{Err: errdefs.ErrInternal, Times: 1})
	testutil.Fails(n.t, n.unpause(n.t.Context(), pod, id), errdefs.IsInternal, "unpause")
	return pod, id
}

// TestPausedWhileTheEngineFails: if the engine fails to resume a container after a checkpoint, the container stays
// paused. The next checkpoint does not take that for a user's pause.
func TestPausedWhileTheEngineFails(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.notResumed(engine)
	n.wantPaused(id, true, id)
	testutil.Must(t, n.Service.pause(t.Context(), pod, id))
	testutil.Must(t, n.unpause(t.Context(), pod, id))
	n.wantPaused(id, false)
}

// TestWatchResumes: Watch resumes a container that its checkpoint could not resume.
func TestWatchResumes(t *testing.T) {
	n, engine := newDumpNode(t)
	n.watch()
	pod, id := n.notResumed(engine)
	testutil.Until(t, "the container is resumed", func() bool { return len(n.leftPaused(t.Context(), pod)) == 0 })
	n.wantPaused(id, false)
}

// TestPauseNeedsTheRecord: a container whose pause cannot be recorded is not paused.
func TestPauseNeedsTheRecord(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	n.withoutStore(func() {
		testutil.Assert(t, n.Service.pause(t.Context(), pod, id) != nil, "pause succeeded without a record")
	})
	testutil.Equal(t, engine.Calls("PauseContainer"), 0, "calls of PauseContainer")
	n.wantPaused(id, false)
}

// TestResumedByAUserIsNoCheckpoint: unpause fails if a user has resumed the container during the checkpoint. The
// container's files may then be newer than its processes in the checkpoint.
func TestResumedByAUserIsNoCheckpoint(t *testing.T) {
	n, engine := newDumpNode(t)
	pod, id := n.runningInPod()
	testutil.Must(t, n.Service.pause(t.Context(), pod, id))
	testutil.Must(t, engine.UnpauseContainer(t.Context(), id))
	err := n.unpause(t.Context(), pod, id)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "not paused"), "unpause: %v", err)
	n.wantPaused(id, false)
}
