package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestUndoStackUnwindsTheNewestFirst(t *testing.T) {
	var done []string
	var stack undoStack
	for _, name := range []string{"a", "b", "c"} {
		stack.push(name, func(ctx context.Context) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, bounded := ctx.Deadline()
			testutil.Assert(t, bounded, "an undo may take for ever")
			done = append(done, name)
			return nil
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testutil.Check(t, stack.unwind(ended))
	testutil.Equal(t, strings.Join(done, ""), "cba", "the undos ran as")
}

func TestUndoStackEndsAtTheFirstThatFails(t *testing.T) {
	var done []string
	var stack undoStack
	for _, name := range []string{"a", "b", "c"} {
		stack.push("undo "+name, func(context.Context) error {
			done = append(done, name)
			if name == "b" {
				return errTest
			}
			return nil
		})
	}
	err := stack.unwind(t.Context())
	testutil.Assert(t, errors.Is(err, errTest) && strings.Contains(err.Error(), "cannot undo b"),
		"unwind returned %v", err)
	got := strings.Join(done, "")
	testutil.Assert(t, got == "cb", "the undos ran as %q, want no undo below the failed one", got)
	testutil.Check(t, (undoStack{}).unwind(t.Context()), "an empty stack")
}

// A pod whose roll-back failed is NOTREADY when Run returns, and has its checkpoint. It can be stopped and removed once
// the failing call works again.
func TestPodOfAFailedRollBackStaysUntilItIsRemoved(t *testing.T) {
	failAdd := func(n *node, before func()) {
		n.network.setAdd(func(context.Context, cni.Pod) error {
			before()
			return errTest
		})
	}
	type test struct {
		// breakIt makes the set-up and its roll-back fail, until repair.
		breakIt func(*node) (repair func())
		// joined says that the pod still holds an address after the roll-back.
		joined bool
		// container says that the pod's container still exists after the roll-back.
		container bool
	}
	onNodes(t, withCNI, map[string]test{
		"CNI DEL": {func(n *node) func() {
			empty := func() {}
			n.network.setAdd(func(context.Context, cni.Pod) error { empty = n.fillStore(); return nil })
			n.network.failDel(errTest)
			return func() { empty(); n.network.failDel(nil) }
		}, true, true},
		"the roll-back inside of CNI ADD": {func(n *node) func() {
			n.network.set(func() { n.network.keepOnError = true })
			n.network.failAdd(errTest)
			n.network.failDel(errTest)
			return func() { n.network.failDel(nil) }
		}, true, true},
		"the removal of the container": {func(n *node) func() {
			failAdd(n, func() {})
			return n.engine.Inject("RemoveContainer", dockertest.Fault{Err: errTest})
		}, false, true},
		"the removal of the checkpoint": {func(n *node) func() {
			unlock := func() {}
			failAdd(n, func() { unlock = n.lockStore() })
			return func() { unlock() }
		}, false, false},
	}, func(n *node, tt test) {
		repair := tt.breakIt(n)
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Require(n, err != nil && strings.Contains(err.Error(), "roll-back: cannot"),
			"Run returned %v", err)
		pods := n.cache.Snapshot().Pods()
		testutil.Require(n, len(pods) == 1 && pods[0].Meta.Name == sandboxName("web"), "the cache has %v", pods)
		id := pods[0].ID
		n.wantState(id, notReady)
		testutil.Equal(n, n.phase(id), checkpoint.PhaseIntent, "the checkpoint says")
		testutil.Equal(n, n.isJoined(id), tt.joined, "holds an address:")
		_, err = n.engine.InspectContainer(n.Context(), id)
		testutil.Assert(n, (err == nil) == tt.container, "the container: %v", err)
		// The pod's name is taken until the pod is removed.
		n.network.failAdd(nil)
		again, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, err != nil, "the same request made %s", again)

		// The kubelet repeats StopPodSandbox. The first call cannot release an address.
		stopErr := n.Stop(n.Context(), id)
		testutil.Assert(n, !tt.joined || errors.Is(stopErr, errTest),
			"Stop returned %v, want the error of CNI DEL", stopErr)
		n.wantState(id, notReady)
		repair()
		n.stopAndRemoveLast(id)
		n.must(n.Remove(n.Context(), n.run("web")))
		n.wantNothing()
	})
}

// The roll-back has removed the sandbox container, but not the checkpoint, when the engine goes away. The engine does
// not list such a pod when it is back.
func TestPodOfAFailedRollBackIsShownWithoutTheEngine(t *testing.T) {
	onEachKind(t, func(n *node) {
		var unlock, repair func()
		n.network.setAdd(func(context.Context, cni.Pod) error {
			unlock, repair = n.lockStore(), n.engine.Inject("InspectContainer", dockertest.Fault{})
			return errTest
		})
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Require(n, err != nil && strings.Contains(err.Error(), "roll-back: cannot"),
			"Run returned %v", err)
		n.wantState(id, notReady)
		repair()
		n.engine.Away()
		n.engine.Back()
		settle()
		n.wantState(id, notReady)
		unlock()
		n.network.failAdd(nil)
		n.stopAndRemoveLast(id)
		n.wantNothing()
	})
}

// DEL is not called after an ADD that undid itself. If the plugin is missing, DEL would fail, too, and each attempt
// would leave a pod.
func TestFailedAddThatUndidItselfIsNotDeleted(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.failAdd(errTest)
		n.network.failDel(errTest)
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errors.Is(err, errTest), "Run returned %v", err)
		testutil.Assert(n, n.network.dels == 0, "%d calls of DEL", n.network.dels)
		n.wantNothing()
	})
}

// The engine goes away in the middle: nothing can be rolled back, and nothing may be lost.
func TestEngineThatGoesAwayDuringTheSetUp(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.setAdd(func(context.Context, cni.Pod) error {
			n.engine.Away()
			return errTest
		})
		n.network.set(func() { n.network.keepOnError = true })
		n.network.failDel(errTest)
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Require(n, err != nil, "Run made %s", id)
		n.network.failAdd(nil)
		n.network.failDel(nil)
		n.network.set(func() { n.network.keepOnError = false })
		n.engine.Back()
		settle()
		pods := n.cache.Snapshot().Pods()
		testutil.Require(n, len(pods) == 1, "%d pods, want the one that could not be rolled back", len(pods))
		n.wantState(pods[0].ID, notReady)
		n.removeLast(pods[0].ID)
	})
}
