package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// evented waits until the kubelet says whether the runtime streams its events.
func (n *node) evented(want int) {
	n.t.Helper()
	eventually(n.t, "events are streamed", func() error {
		body, err := n.get("/metrics")
		if err != nil {
			return err
		}
		if line := fmt.Sprintf("\nkubelet_evented_pleg %d\n", want); !strings.Contains(string(body), line) {
			return fmt.Errorf("no line %q in\n%s", line, body)
		}
		return nil
	})
}

// TestRuntimeEvents follows the runtime's events where it streams them, falls back to lists by itself, and comes back.
func TestRuntimeEvents(t *testing.T) {
	criadapterOnly(t)
	n := newNode(t)
	n.write("pod.yaml", simple("pod", "sleep 1000"))
	pod := n.ready("pod")
	n.evented(1)
	testutil.Must(t, n.server.Stop(t.Context()))
	n.evented(0)
	testutil.Must(t, n.server.Start(t.Context()))
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	n.evented(1)
}

// TestNoRuntimeEvents notices by lists alone that a container died.
func TestNoRuntimeEvents(t *testing.T) {
	n := newNode(t, "--no-runtime-events")
	n.write("pod.yaml", simple("pod", "sleep 1000"))
	pod := n.ready("pod")
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	n.evented(0)
}
