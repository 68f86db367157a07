package sandbox

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// On the engine's bridge, a sandbox that is started again gets another network namespace and address. The pod's
// containers stay in the first namespace, so the kubelet must make the pod anew. The pod's status shows the new
// address.
func TestBridgedPodThatWasStartedAgainIsNotReady(t *testing.T) {
	onNode(t, withBridge, func(n *node) {
		const first, second = "172.17.0.9", "172.17.0.23"
		id := n.run("web")
		n.wantIPs(id, first)
		n.must(n.engine.StopContainer(n.Context(), id, 0))
		settle()
		n.wantState(id, notReady)
		n.engine.address = netip.MustParseAddr(second)
		n.must(n.engine.StartContainer(n.Context(), id))
		settle()
		n.wantState(id, notReady)
		n.wantIPs(id, second)
		n.end()
		n.start(withBridge)
		n.wantState(id, notReady)
		n.wantIPs(id, second)
		n.must(n.engine.StopContainer(n.Context(), id, 0))
		settle()
		n.wantState(id, notReady)
		n.wantIPs(id, second)
		n.removeLast(id)
	})
}

func (n *node) wantIPs(id string, want ...string) {
	n.Helper()
	got := n.pod(id).Status.IPs
	testutil.Assert(n, slices.Equal(got, want), "the addresses of pod %s are %v, want %v", id[:8], got, want)
}
