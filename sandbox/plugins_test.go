package sandbox

import (
	"context"
	"errors"
	"testing"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// refusing is a plugin that refuses each pod.
type refusing struct {
	withoutPlugins
	node *node
	// asked is the phase in the record of the last pod when the plugin was asked.
	asked checkpoint.Phase
}

func (r *refusing) RunPod(_ context.Context, pod *state.Pod) error {
	r.asked = r.node.phase(pod.ID)
	return errTest
}

// A pod that a plugin refused is NOTREADY if its roll-back fails, also after a restart. A crash before the plugin's
// answer leaves the record that the plugin saw.
func TestRefusedPodIsNotReadyWhenItsRollBackFails(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.failDel(errTest)
		n.refuse(func() { n.network.failDel(nil) })
	})
	onNode(t, withCNI, func(n *node) {
		n.refuse(n.engine.Inject("RemoveContainer", dockertest.Fault{Err: errTest}))
	})
}

// refuse has a plugin refuse a pod whose roll-back fails until repair.
func (n *node) refuse(repair func()) {
	n.Helper()
	plugin := &refusing{node: n}
	n.opts.Plugins = plugin
	id, err := n.Run(n.Context(), podConfig("web"), "")
	testutil.Require(n, errors.Is(err, errTest), "Run returned %v", err)
	testutil.Equal(n, plugin.asked, checkpoint.PhaseIntent, "the phase when the plugin was asked")
	for range 2 {
		testutil.Equal(n, n.phase(id), checkpoint.PhaseIntent, "the checkpoint says")
		n.wantState(id, notReady)
		n.restart()
	}
	repair()
	n.must(n.Recover(n.Context()))
	n.wantUnjoined()
	n.removeLast(id)
}
