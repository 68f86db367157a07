package sandbox

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// crashDuringSetUp leaves a pod in the state after a kill -9 during its set-up: CNI ADD has given the address, and
// nothing is rolled back.
func (n *node) crashDuringSetUp() {
	n.Helper()
	var record checkpoint.Record
	var given cni.Pod
	n.network.set(func() {
		n.network.onAdd = func(_ context.Context, pod cni.Pod) error {
			var err error
			given = pod
			record, err = n.store.Load(n.Context(), pod.ID)
			n.must(err)
			n.engine.Away() // no roll-back from here on
			return errTest
		}
		n.network.keepOnError = true
	})
	n.network.failDel(errTest)
	_, err := n.Run(n.Context(), podConfig("web"), "")
	testutil.Require(n, err != nil, "Run succeeded")
	n.network.set(func() { n.network.onAdd, n.network.onDel, n.network.keepOnError = nil, nil, false })
	n.engine.Back()
	got, err := n.store.Load(n.Context(), record.SandboxID)
	testutil.Require(n, err == nil && got.Phase == checkpoint.PhaseIntent && netns.Open(given.NetnsPath).Alive(),
		"the set-up did not leave the state of a crash: %v, %v", got, err)
}

func TestRecoverStopsAPodWhoseSetUpWasCutShort(t *testing.T) {
	onEachKind(t, func(n *node) {
		other := n.run("other")
		n.crashDuringSetUp()
		n.restart()
		var id string
		for _, pod := range n.cache.Snapshot().Pods() {
			if pod.Meta.Name == sandboxName("web") {
				id = pod.ID
			}
		}
		n.wantState(id, notReady)
		n.wantRunning(id, true)
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		n.wantRunning(id, false)
		testutil.Equal(n, n.phase(id), checkpoint.PhaseStopped, "the checkpoint says")
		testutil.Assert(n, !n.isJoined(id), "its address is still held")
		n.wantState(other, ready)

		next := podConfig("web")
		next.Metadata.Attempt = 1
		second := n.runConfig(next)
		for _, id := range []string{id, second, other} {
			n.must(n.Remove(n.Context(), id))
		}
		n.wantNothing()
	})
}

// A crash before the intent is on disk: only the container's labels show the pod.
func TestSandboxWithoutACheckpointIsNotReady(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		pod := n.network.joined[id]
		n.must(n.network.Del(n.Context(), pod, ""))
		n.must(netns.Open(pod.NetnsPath).Unpin())
		n.must(n.store.Delete(t.Context(), id))
		n.restart()
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		n.removeLast(id)
	})
}

func TestRecoverPutsBackWhatARunningPodLost(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		before := n.pod(id).Status
		hosts, err := os.ReadFile(n.files.Of(id).Hosts)
		n.must(err)
		n.end()
		n.must(netns.Open(before.NetnsPath).Unpin())
		n.must(os.RemoveAll(n.files.dir))
		n.start(n.mode)
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		same, err := netns.Open(before.NetnsPath).SameAs(before.PID)
		testutil.Assert(n, err == nil && same, "the namespace is not pinned again: %v", err)
		testutil.Assert(n, n.files.complete(id), "the files are not complete")
		testutil.Holds(n, n.files.Of(id).Hosts, string(hosts), "the hosts file")
		got := n.pod(id).Status.IPs
		testutil.Assert(n, slices.Equal(got, before.IPs), "the addresses are %v, were %v", got, before.IPs)
		n.removeLast(id)
	})
}

// Docker may start a sandbox again after a reboot, which takes all pins. It has no network then.
func TestRecoverOfASandboxThatRanBefore(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		path := n.pod(id).Status.NetnsPath
		n.end()
		n.must(netns.Open(path).Unpin())
		n.must(n.engine.StopContainer(n.Context(), id, 0))
		n.must(n.engine.StartContainer(n.Context(), id))
		n.start(n.mode)
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		n.removeLast(id)
	})
}

func TestRecoverChangesNothingOfAHealthyPod(t *testing.T) {
	onEachKind(t, func(n *node) {
		web := n.run("web")
		host := n.runConfig(onHostNetwork(podConfig("host")))
		stopped := n.run("stopped")
		n.must(n.Stop(n.Context(), stopped))
		n.restart()
		before := n.cache.Snapshot()
		n.must(n.Recover(n.Context()))
		testutil.Assert(n, n.cache.Snapshot() == before, "the cache was written to")
		n.wantState(web, ready)
		n.wantState(host, ready)
		n.wantState(stopped, notReady)
	})
}

// The sandbox was started again while criadapter was away: its addresses are in a namespace that the pod has left.
func TestRecoverFindsASandboxInAnotherNamespace(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("web")
		n.end()
		n.engine.newProcess(id)
		n.start(n.mode)
		n.must(n.Recover(n.Context()))
		n.wantState(id, notReady)
		n.stopAndRemoveLast(id)
	})
}

// A pod whose pin is damaged does not keep a start of criadapter from repairing the other pods.
func TestRecoverGoesOnAfterAnError(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		ids := []string{n.run("first"), n.run("second"), n.run("third")}
		n.end()
		for _, id := range ids {
			n.must(os.RemoveAll(n.files.Of(id).Hosts))
		}
		bad := n.network.joined[ids[1]].NetnsPath
		n.must(netns.Open(bad).Unpin())
		n.must(os.WriteFile(bad, []byte("not a pin"), 0o600))
		n.start(n.mode)
		testutil.Assert(n, n.Recover(n.Context()) != nil, "Recover returned no error for the second pod")
		for _, id := range ids {
			testutil.Assert(n, n.files.complete(id), "the files of %s are not complete", id[:8])
		}
		n.must(os.Remove(bad))
		n.must(n.Recover(n.Context()))
		for _, id := range ids {
			n.must(n.Remove(n.Context(), id))
		}
		n.wantNothing()
	})
}

func TestRecoverTellsOfAFailedStop(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.crashDuringSetUp()
		n.restart()
		n.network.failDel(errTest)
		testutil.FailsWith(n, n.Recover(n.Context()), errTest, "Recover")
		n.network.failDel(nil)
		n.must(n.Recover(n.Context()))
		n.must(n.Remove(n.Context(), n.someID()))
		n.wantNothing()
	})
}

// Repair leaves a pod alone that is stopped at the same time. Otherwise Repair would pin the namespace again, and the
// pin would stay for ever.
func TestRecoverLeavesAPodAloneThatIsStopped(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		path := n.pod(id).Status.NetnsPath
		n.restart()
		unlock, err := n.locks.Lock(n.Context(), id)
		n.must(err)
		n.must(netns.Open(path).Unpin()) // as StopPodSandbox does
		recovered := testutil.Go(func() error { return n.Recover(n.Context()) })
		synctest.Wait()
		n.savePhase(n.Context(), n.pod(id), checkpoint.PhaseStopped)
		unlock()
		n.must(<-recovered)
		if netns.Open(path).Alive() {
			n.Error("the namespace was pinned again")
			n.must(netns.Open(path).Unpin())
		}
		n.removeLast(id)
	})
}

// lose removes parts of a pod, as a crash, a clean-up or an operator may. Each bit of parts selects one element of
// losses.
func (n *node) lose(id string, parts byte) {
	n.Helper()
	pod := n.pod(id)
	kernel := pod.Status.Namespaces != nil
	losses := []func() error{
		func() error { return n.store.Delete(n.Context(), id) },
		func() error { // the kernel's pins or the sandbox container
			if kernel {
				return n.kernel.remove(n.Context(), id)
			}
			return n.engine.RemoveContainer(n.Context(), id)
		},
		func() error { return netns.Open(pod.Status.NetnsPath).Unpin() },
		func() error { n.network.set(func() { delete(n.network.joined, id) }); return nil },
		func() error { return n.files.remove(id) },
	}
	for i, loss := range losses {
		if parts&(1<<i) != 0 {
			n.must(loss())
		}
	}
}

// onlyThePin is the value of parts that leaves only the pin of a pod. Nothing names the pin's owner. The pin is on a
// tmpfs, so a reboot removes it.
const onlyThePin = 0b11011

// FuzzRecovery takes parts away from two attempts of a pod, and restarts. The second attempt is ready, stopped or being
// set up. Then the next attempt becomes READY, and the kubelet's garbage collection leaves nothing of any attempt.
func FuzzRecovery(f *testing.F) {
	for lost := range byte(1 << 5) {
		f.Add(lost%2 == 0, lost, byte(0), lost%3)
		f.Add(lost%2 == 1, byte(0), lost, lost%3)
		f.Add(lost%3 == 0, lost, lost>>1, lost%3)
	}
	f.Fuzz(func(t *testing.T, kernel bool, first, second, phase byte) {
		first, second = first%32, second%32
		if first&^4 == onlyThePin || second&^4 == onlyThePin {
			return
		}
		mode := withCNI
		if kernel {
			mode = withKernel
		}
		onNode(t, mode, func(n *node) {
			old := n.run("web")
			next := podConfig("web")
			next.Metadata.Attempt = 1
			id := n.runConfig(next)
			switch phase % 3 {
			case 1:
				n.must(n.Stop(n.Context(), id))
			case 2:
				n.must(
					n.store.Update(n.Context(), id, func(r *checkpoint.Record) error {
						r.Phase = checkpoint.PhaseIntent
						return nil
					}))
			}
			n.end()
			n.lose(old, first)
			n.lose(id, second)
			n.start(n.mode)
			n.must(n.Recover(n.Context()))
			n.must(n.collectOrphans(n.Context()))
			next.Metadata.Attempt = 2
			n.runConfig(next)
			for _, pod := range n.cache.Snapshot().Pods() {
				n.must(n.Stop(n.Context(), pod.ID))
				n.must(n.Remove(n.Context(), pod.ID))
			}
			n.must(n.collectOrphans(n.Context()))
			n.wantNothing()
		})
	})
}
