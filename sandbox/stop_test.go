package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestStopEndsAllOfAPodAndKeepsItListed(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		other := n.run("other")
		first, second := n.addContainer(id, "web", "first"), n.addContainer(id, "web", "second")
		theirs := n.addContainer(other, "other", "theirs")
		path := n.pod(id).Status.NetnsPath
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.wantRunning(id, false)
		n.wantRunning(first, false)
		n.wantRunning(second, false)
		testutil.Equal(n, n.phase(id), checkpoint.PhaseStopped, "the checkpoint says")
		testutil.Assert(n, !netns.Open(path).Alive(), "the namespace is still pinned")
		testutil.Assert(n, !n.isJoined(id), "the address is still held")
		testutil.Assert(n, n.network.deadDels == 0, "CNI DEL found no namespace")
		n.wantState(other, ready)
		n.wantRunning(theirs, true)
	})
}

func TestRemoveTakesAllOfAPod(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.addContainer(id, "web", "app")
		n.must(n.Remove(n.Context(), id)) // without a Stop before
		n.wantNothing()
	})
}

// If the engine lost the answer to a create and the container's event, the cache lacks the container.
func TestRemoveTakesTheContainerOfAnUnfinishedCreate(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		leftover := n.addContainer(id, "web", "app")
		n.cache.RemoveContainer(leftover)
		n.containers.unfinished.Store(id, leftover)
		n.engine.Inject("RemoveContainer", dockertest.Fault{Object: leftover, Err: errTest, Times: 1})
		testutil.FailsWith(n, n.Remove(n.Context(), id), errTest, "Remove")
		n.wantState(id, notReady)
		n.must(n.Remove(n.Context(), id))
		n.wantNothing()
	})
}

func TestStopAndRemoveAreIdempotent(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		for range 3 {
			n.must(n.Stop(n.Context(), id))
			n.wantState(id, notReady)
		}
		testutil.Assert(n, n.network.dels == 1, "CNI DEL was called %d times for one address", n.network.dels)
		for range 3 {
			n.must(n.Remove(n.Context(), id))
		}
		n.must(n.Stop(n.Context(), id))
		n.wantNothing()
	})
}

func TestIDsOfStopAndRemove(t *testing.T) {
	onEachKind(t, func(n *node) {
		for _, call := range []func(context.Context, string) error{n.Stop, n.Remove} {
			n.must(call(n.Context(), "0123456789abcdef"))
			testutil.Fails(n, call(n.Context(), ""), errdefs.IsInvalidArgument, "an empty id")
		}
		id := n.run("web")
		n.addContainer(id, "web", "app")
		n.must(n.Stop(n.Context(), id[:12]))
		n.wantState(id, notReady)
		testutil.Equal(n, n.phase(id), checkpoint.PhaseStopped, "the checkpoint says")
		n.must(n.Remove(n.Context(), id[:12]))
		n.wantNothing()
	})
}

func TestFailedDelKeepsThePodForARetry(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		path := n.pod(id).Status.NetnsPath
		n.network.failDel(errTest)
		for name, call := range map[string]func(context.Context, string) error{"Stop": n.Stop, "Remove": n.Remove} {
			if err := call(n.Context(), id); !errors.Is(err, errTest) {
				n.Errorf("%s returned %v, want the error of CNI DEL", name, err)
			}
			n.wantState(id, notReady)
		}
		// A failed CNI DEL does not keep the sandbox running.
		n.wantRunning(id, false)
		testutil.Assert(n, netns.Open(path).Alive(), "the namespace is gone before the address")
		phase := n.phase(id)
		testutil.Assert(n, phase != checkpoint.PhaseStopped, "the checkpoint says %s", phase)
		n.network.failDel(nil)
		n.stopAndRemoveLast(id)
	})
}

func TestFailedStopKeepsThePodForARetry(t *testing.T) {
	onNodes(t, withCNI, map[string]func(*node) (repair func()){
		"a container that does not stop": func(n *node) func() {
			n.containers.fail(errTest)
			return func() { n.containers.fail(nil) }
		},
		"the engine does not stop the sandbox": func(n *node) func() {
			return n.engine.Inject("StopContainer", dockertest.Fault{Err: errTest})
		},
	}, func(n *node, breakIt func(*node) (repair func())) {
		id := n.run("web")
		n.addContainer(id, "web", "app")
		repair := breakIt(n)
		testutil.Assert(n, n.Stop(n.Context(), id) != nil, "Stop succeeded")
		n.wantState(id, notReady)
		repair()
		n.stopAndRemoveLast(id)
	})
}

// Stop and Remove make room on a full disk, so they must work while the disk is full.
func TestStopAndRemoveOnAFullDisk(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.addContainer(id, "web", "app")
		empty := n.fillStore()
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.wantUnjoined()
		n.must(n.Stop(n.Context(), id))
		n.must(n.Remove(n.Context(), id))
		empty()
		n.wantNothing()
	})
}

func TestFailedRemoveKeepsThePodForARetry(t *testing.T) {
	onNodes(t, withCNI, map[string]func(*node) (repair func()){
		"the engine does not remove the sandbox": func(n *node) func() {
			return n.engine.Inject("RemoveContainer", dockertest.Fault{Err: errTest})
		},
		"the checkpoint cannot be removed": func(n *node) func() { return n.lockStore() },
	}, func(n *node, breakIt func(*node) (repair func())) {
		id := n.run("web")
		n.must(n.Stop(n.Context(), id))
		repair := breakIt(n)
		testutil.Assert(n, n.Remove(n.Context(), id) != nil, "Remove succeeded")
		settle()
		n.wantState(id, notReady)
		repair()
		n.removeLast(id)
	})
}

// The sandbox ended or was removed behind our back: its address goes back all the same.
func TestStopGivesBackTheAddressOfADeadSandbox(t *testing.T) {
	onNodes(t, withCNI, map[string]func(*node, string){
		"it ended": func(n *node, id string) {
			n.must(n.engine.Exit(id, 137))
			n.engine.endProcess(id)
		},
		"it was removed": func(n *node, id string) { n.must(n.engine.RemoveContainer(n.Context(), id)) },
		"it was removed while criadapter was away": func(n *node, id string) {
			n.end()
			n.must(n.engine.RemoveContainer(n.Context(), id))
			n.start(n.mode)
		},
	}, func(n *node, die func(*node, string)) {
		id := n.run("web")
		die(n, id)
		settle()
		n.wantState(id, notReady)
		n.must(n.Stop(n.Context(), id))
		n.wantUnjoined()
		testutil.Assert(n, n.network.deadDels == 0, "CNI DEL found no namespace")
		n.removeLast(id)
	})
}

// A crash between CNI DEL and the next write of the checkpoint must not bring
// back a running sandbox without a network as READY.
func TestCrashDuringStopLeavesNoReadyPodWithoutANetwork(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		n.engine.Inject("StopContainer", dockertest.Fault{Err: errTest, Times: 1})
		unlock := func() {}
		n.network.setDel(func(context.Context, cni.Pod) error { unlock = n.lockStore(); return nil })
		testutil.Require(n, n.Stop(n.Context(), id) != nil, "Stop succeeded")
		n.network.failDel(nil)
		unlock()
		n.wantUnjoined()
		n.wantRunning(id, true)
		n.restart()
		n.wantState(id, notReady)
		n.must(n.Recover(n.Context()))
		n.wantRunning(id, false)
		n.removeLast(id)
	})
}

// A checkpoint that was lost or damaged does not lose the pod's address.
func TestStopGivesBackTheAddressOfAPodWhoseCheckpointIsLost(t *testing.T) {
	tests := map[string]func(*node, string){
		"lost": func(n *node, file string) { n.must(os.Remove(file)) },
		"corrupt": func(n *node, file string) {
			n.must(os.WriteFile(file, []byte("{}"), 0o600))
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			onEachKind(t, func(n *node) {
				id := n.run("web")
				n.end()
				lose(n, filepath.Join(n.storeDir(), id+".json"))
				n.start(n.mode)
				n.must(n.Recover(n.Context()))
				n.wantState(id, notReady)
				n.network.failDel(errTest)
				testutil.FailsWith(n, n.Stop(n.Context(), id), errTest, "Stop")
				n.network.failDel(nil)
				n.stopAndRemoveLast(id)
			})
		})
	}
}

// Another shim's pod has no checkpoint. Its sandbox container is stopped and removed.
func TestPodWithoutACheckpointCanBeStoppedAndRemoved(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		n.must(netns.Open(n.pod(id).Status.NetnsPath).Unpin())
		n.must(n.network.Del(n.Context(), n.network.joined[id], ""))
		n.must(n.store.Delete(t.Context(), id))
		n.must(os.RemoveAll(n.files.dir))
		n.restart()
		n.wantState(id, notReady)
		n.must(n.Stop(n.Context(), id))
		n.wantRunning(id, false)
		n.removeLast(id)
	})
}

func TestStopRespectsItsCallersTime(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.network.setDel(waitForEnd)
		slow, cancelSlow := context.WithTimeout(n.Context(), time.Hour)
		first := testutil.Go(func() error { return n.Stop(slow, id) })
		synctest.Wait()
		// A second Stop waits for the first, until its own deadline.
		quick, cancel := context.WithTimeout(n.Context(), time.Second)
		defer cancel()
		testutil.FailsWith(n, n.Stop(quick, id), context.DeadlineExceeded, "Stop")
		// Other pods do not wait at all.
		other := n.run("other")
		n.wantState(other, ready)
		cancelSlow()
		testutil.FailsWith(n, <-first, context.Canceled, "the first Stop")
		n.network.failDel(nil)
		n.must(n.Remove(n.Context(), id))
		n.removeLast(other)
	})
}

// Run, Stop and Remove of the same pods run at once, many times over. Only a Run whose pod exists fails, nothing is
// left, and nothing waits for ever.
func TestCallsForOnePodAtOnce(t *testing.T) {
	onEachKind(t, func(n *node) {
		var group sync.WaitGroup
		for worker := range 4 {
			group.Go(func() {
				for range 15 {
					id, err := n.Run(n.Context(), podConfig("web"), "")
					testutil.Assert(n, err == nil || errdefs.IsAlreadyExists(err), "Run: %v", err)
					if err != nil {
						id = n.someID()
					}
					if worker%2 == 0 {
						testutil.Check(n, n.Stop(n.Context(), id), "Stop")
					}
					testutil.Check(n, n.Remove(n.Context(), id), "Remove")
				}
			})
		}
		group.Wait()
		n.wantNothing()
	})
}

// someID returns the id of an existing pod, or an unknown id if there is no pod.
func (n *node) someID() string {
	for _, pod := range n.cache.Snapshot().Pods() {
		return pod.ID
	}
	return "none"
}

// A pod that is being set up cannot be stopped: no client has its id yet.
func TestPodIsNotSeenBeforeItIsReady(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.setAdd(func(_ context.Context, pod cni.Pod) error {
			time.Sleep(10 * time.Minute / 4)
			if pods := n.cache.Snapshot().Pods(); len(pods) != 0 {
				n.Errorf("the cache shows %v", pods[0].Status)
			}
			n.must(n.Stop(n.Context(), pod.ID))
			n.must(n.Remove(n.Context(), pod.ID))
			n.must(n.Recover(n.Context()))
			return nil
		})
		id := n.run("web")
		n.wantRunning(id, true)
		testutil.Equal(n, n.pod(id).Status.State(), runtimeapi.PodSandboxState_SANDBOX_READY, "the pod")
	})
}
