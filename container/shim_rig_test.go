package container

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
)

// shim returns the process that started a container.
func (n *node) shim(id string) int {
	n.t.Helper()
	inspect, err := n.engine.InspectContainer(n.t.Context(), id)
	testutil.Must(n.t, err)
	first, err := proctable.Read(inspect.State.Pid)
	testutil.Must(n.t, err)
	return first.Parent
}

// TestRigContainersOfAPodShareAShim: the shim of a pod serves its sandbox container and all containers, even a
// container that starts after another container has ended. Another pod has another shim.
func TestRigContainersOfAPodShareAShim(t *testing.T) {
	n := newRigNode(t)
	features, err := n.engine.Features(t.Context())
	testutil.Must(t, err)
	shared := features.Supports("1.43")
	pod := n.pod()
	var ids []string
	for attempt := range uint32(3) {
		config := n.config("sleep", "1000")
		config.Metadata = &runtimeapi.ContainerMetadata{Name: "c", Attempt: attempt}
		id := n.started(pod, config)
		testutil.Assert(t, (n.shim(id) == n.shim(pod)) == shared,
			"shim %d, the sandbox container's is %d", n.shim(id), n.shim(pod))
		ids = append(ids, id)
		if attempt == 1 {
			testutil.Must(t, n.Stop(t.Context(), ids[0], 0))
			testutil.Must(t, n.Remove(t.Context(), ids[0]))
		}
	}
	testutil.Assert(t, n.shim(n.pod()) != n.shim(pod), "two pods share a shim")
	for _, id := range ids[1:] {
		testutil.Check(t, n.Stop(t.Context(), id, 0))
		n.wantState(id, exited)
	}
}
