package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// loseRecord removes a pod's checkpoint while the program is stopped.
func (n *node) loseRecord(id string) {
	n.Helper()
	n.must(os.Remove(filepath.Join(n.storeDir(), id+".json")))
}

// reboot ends a pod's processes and takes its pin away, as a restart of the machine does.
func (n *node) reboot(id string) {
	n.Helper()
	n.must(n.engine.Exit(id, 137))
	n.engine.endProcess(id)
	n.must(netns.Open(n.netnsPath(id)).Unpin())
}

// Whatever is lost of a pod, StopPodSandbox and RemovePodSandbox by its id give its address back.
func TestAddressGoesBackWhateverIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		lose  func(*node, string)
		start networkMode
	}{
		"the checkpoint and the pin": {func(n *node, id string) { n.loseRecord(id); n.reboot(id) }, withCNI},
		"the checkpoint and the container": {func(n *node, id string) {
			n.loseRecord(id)
			n.must(n.engine.RemoveContainer(n.Context(), id))
		}, withCNI},
		"all of it": {func(n *node, id string) {
			n.loseRecord(id)
			n.reboot(id)
			n.must(n.engine.RemoveContainer(n.Context(), id))
		}, withCNI},
		"the network plugin": {func(*node, string) {}, withBridge},
		"the network plugin and the checkpoint": {func(n *node, id string) {
			n.loseRecord(id)
		}, withBridge},
		"the network plugin, the checkpoint and the container": {func(n *node, id string) {
			n.loseRecord(id)
			n.must(n.engine.RemoveContainer(n.Context(), id))
		}, withBridge},
	} {
		for _, call := range []string{"Stop", "Remove"} {
			t.Run(name+", "+call, func(t *testing.T) {
				onNode(t, withCNI, func(n *node) {
					id := n.run("web")
					n.end()
					test.lose(n, id)
					n.start(test.start)
					if call == "Stop" {
						n.must(n.Stop(n.Context(), id))
						n.wantUnjoined()
					}
					n.removeLast(id)
				})
			})
		}
	}
}

// CNI plugins are not run for a pod that never was in a CNI network.
func TestNoDelForPodsOfTheBridge(t *testing.T) {
	onNodes(t, withBridge, map[string]networkMode{"bridge": withBridge, "cni afterwards": withCNI},
		func(n *node, start networkMode) {
			id := n.run("web")
			n.end()
			n.start(start)
			n.must(n.Stop(n.Context(), id))
			n.must(n.Remove(n.Context(), id))
			n.must(n.Stop(n.Context(), "0123456789abcdef"))
			testutil.Assert(n, n.network.dels == 0, "CNI DEL was run %d times", n.network.dels)
			n.wantNothing()
		})
	t.Run("host network", func(t *testing.T) {
		onNode(t, withCNI, func(n *node) {
			id := n.runConfig(onHostNetwork(podConfig("web")))
			n.end()
			n.loseRecord(id)
			n.start(n.mode)
			n.must(n.Remove(n.Context(), id))
			testutil.Assert(n, n.network.dels == 0, "CNI DEL was run %d times", n.network.dels)
			n.wantNothing()
		})
	})
}
