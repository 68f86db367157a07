package container

import (
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The engine refuses some starts without recording the failure. The container stays EXITED, also after a restart of
// criadapter, until another client starts it.
func TestFailedStartThatTheEngineForgets(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{
		Object: id, Times: 1,
		Err: fmt.Errorf("checkpoint is only supported in experimental mode: %w", errdefs.ErrInvalidArgument)})
	testutil.Fails(t, n.Start(t.Context(), id), errdefs.IsInvalidArgument, "Start")
	ended := n.look(id).Status
	for range 2 { // Recover writes the record again
		n.restart(func() {})
		n.wantState(id, exited)
		got := n.look(id).Status
		testutil.Assert(t, got.ExitCode == cannotRunExitCode && got.Error == ended.Error && got.Error != "" &&
			got.StartedAt.Equal(ended.StartedAt) && got.FinishedAt.Equal(ended.FinishedAt), "%+v, want %+v", got, ended)
	}
	testutil.Must(t, engine.StartContainer(t.Context(), id))
	n.waitState(id, runtimeapi.ContainerState_CONTAINER_RUNNING)
}

// TestStartedIsShownAsRunning: after a successful start the cache shows the container as running, although the engine's
// first inspect fails.
func TestStartedIsShownAsRunning(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("InspectContainer", dockertest.Fault{Object: id, Err: errors.New("the answer was cut"), Times: 3})
	testutil.Must(t, n.Start(t.Context(), id))
	c, err := n.cache.Snapshot().Container(id)
	testutil.Assert(t, err == nil && c.Status.State() == runtimeapi.ContainerState_CONTAINER_RUNNING,
		"it is shown as %v, %v", c.Status.State(), err)
}
