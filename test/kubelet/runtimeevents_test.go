package kubelet

import (
	"fmt"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// evented waits until the kubelet's metric for streamed runtime events has the value want.
func (n *node) evented(want int) {
	n.t.Helper()
	n.metricsHave(fmt.Sprintf("\nkubelet_evented_pleg %d\n", want))
}

// TestRuntimeEvents follows the runtime's event stream. Without the stream the kubelet falls back to lists, and it uses
// the stream again when the stream is back.
func TestRuntimeEvents(t *testing.T) {
	criadapterOnly(t)
	n := newNode(t)
	pod := n.run("pod", "sleep 1000")
	n.evented(1)
	testutil.Must(t, n.server.Stop(t.Context()))
	n.evented(0)
	testutil.Must(t, n.server.Start(t.Context()))
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	n.evented(1)
}

// TestNoRuntimeEvents: without events, the kubelet notices a dead container in its lists.
func TestNoRuntimeEvents(t *testing.T) {
	n := newNode(t, "--no-runtime-events")
	pod := n.run("pod", "sleep 1000")
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	n.evented(0)
}
