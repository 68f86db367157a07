package sandbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// refusing is a plugin that refuses each pod, unless accept is set.
type refusing struct {
	withoutPlugins
	node   *node
	accept bool
	// asked is the phase in the record of the last pod at the time of RunPod.
	asked checkpoint.Phase
	// undone has the pods of the UndoPod calls.
	undone []string
}

func (r *refusing) RunPod(_ context.Context, pod *state.Pod) error {
	r.asked = r.node.phase(pod.ID)
	if r.accept {
		return nil
	}
	return errTest
}

func (r *refusing) UndoPod(ctx context.Context, pod *state.Pod) {
	r.node.must(ctx.Err())
	r.node.wantRunning(pod.ID, true) // plugins may need the namespaces
	r.undone = append(r.undone, pod.ID)
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

// Plugins that have accepted a pod are notified of its roll-back, even if the client is gone and the set-up has no time
// left.
func TestPluginsHearOfAnUndonePod(t *testing.T) {
	for name, plugin := range map[string]*refusing{
		"another plugin refuses it":        {},
		"the checkpoint cannot be written": {accept: true},
	} {
		t.Run(name, func(t *testing.T) {
			onEachKind(t, func(n *node) {
				plugin.node, plugin.undone = n, nil
				n.opts.Plugins = plugin
				ctx, cancel := context.WithCancel(n.Context())
				empty := func() {}
				n.network.setAdd(func(context.Context, cni.Pod) error {
					cancel()
					if plugin.accept {
						empty = n.fillStore()
					}
					return nil
				})
				_, err := n.Run(ctx, podConfig("web"), "")
				testutil.Assert(n, err != nil, "Run succeeded")
				synctest.Wait()
				testutil.Equal(n, len(plugin.undone), 1, "pods undone")
				empty()
				n.wantNothing()
			})
		})
	}
}
