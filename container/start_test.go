package container

import (
	"errors"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

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
