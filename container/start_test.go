package container

import (
	"errors"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
)

// TestStartedIsShownAsRunning: who was told that a container runs finds it running, although the engine did not answer
// what it was asked about it first.
func TestStartedIsShownAsRunning(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("InspectContainer", dockertest.Fault{Object: id, Err: errors.New("the answer was cut"), Times: 3})
	if err := n.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c, err := n.cache.Snapshot().Container(id)
	if err != nil || c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("it is shown as %v, %v", c.Status.State(), err)
	}
}
