package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestKillDuringRunPodSandbox kills criadapter at random moments of a set-up. After each start no pod is READY without
// an address, and the pod can be requested with the next attempt. All pods can be stopped and removed, and nothing is
// left.
func TestKillDuringRunPodSandbox(t *testing.T) {
	const rounds = 12 // make chaos kills at each step of a set-up
	r := newRig(t)
	began := time.Now()
	ids := []string{r.run("first", 0)}
	usual := time.Since(began)
	seed := uint64(began.UnixNano())
	t.Logf("the seed is %d, a set-up takes %v", seed, usual)
	random := rand.New(rand.NewPCG(seed, 0))

	cutShort := 0
	for round := range rounds {
		name := fmt.Sprintf("pod-%d", round)
		after := time.Duration(random.Int64N(int64(usual) * 5 / 4))
		done := testutil.Try(func() (string, error) { return r.tryRun(r.config(name, 0), "") })
		time.Sleep(after)
		r.server.Kill()
		if err := <-done; err != nil {
			cutShort++
		}
		r.must(r.server.Start(t.Context()))

		for _, id := range r.pods() {
			if status := r.status(id); isReady(status) && status.GetNetwork().GetIp() == "" {
				t.Errorf("killed after %v: pod %s is READY without an address", after, status.GetMetadata())
			}
		}
		r.run(name, 1)
		testutil.Require(t, !t.Failed(), "round %d, killed after %v", round, after)
		// Stop the failed attempts, as the kubelet does, and about half of the ready pods.
		for _, id := range r.pods() {
			if random.IntN(2) == 0 || !isReady(r.status(id)) {
				r.stop(id)
			}
			ids = append(ids, id)
		}
	}
	testutil.Assert(t, cutShort != 0, "none of %d kills cut a set-up short", rounds)
	t.Logf("%d of %d kills cut a set-up short", cutShort, rounds)
	r.end(r.pods()...)
	r.wantNothing(ids...)
}

// TestKillDuringStopPodSandbox kills criadapter during StopPodSandbox. However far the call had come, the pod is not
// READY without its network, and the calls can be repeated.
func TestKillDuringStopPodSandbox(t *testing.T) {
	const rounds = 8
	r := newRig(t)
	var ids []string
	for round := range rounds {
		id := r.run(fmt.Sprintf("pod-%d", round), 0)
		ids = append(ids, id)
		address := r.status(id).GetNetwork().GetIp()
		done := testutil.Try(func() (*runtimeapi.StopPodSandboxResponse, error) {
			return r.runtime().StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		})
		time.Sleep(time.Duration(round) * 15 * time.Millisecond)
		r.server.Kill()
		<-done
		r.must(r.server.Start(t.Context()))
		testutil.Assert(t, !isReady(r.status(id)) || r.answers(address),
			"round %d: the pod is READY and does not answer on %s", round, address)
		r.stop(id)
		r.wantNotReady(id)
		r.remove(id)
	}
	r.wantNothing(ids...)
}

// Another program removes a sandbox container. StopPodSandbox gives the pod's address back, whether or not criadapter
// ran at the removal.
func TestRemovedSandboxGivesItsAddressBack(t *testing.T) {
	r := newRig(t)
	r.pid = runtimeapi.NamespaceMode_POD // with a sandbox container
	for name, watched := range map[string]bool{"watched": true, "unwatched": false} {
		id := r.run(name, 0)
		if len(r.leases()) != 1 {
			t.Fatalf("the leases are %v, want one", r.leases())
		}
		if !watched {
			r.must(r.server.Stop(t.Context()))
		}
		r.must(r.engine.RemoveContainer(t.Context(), id))
		if !watched {
			r.must(r.server.Start(t.Context()))
		}
		testutil.Until(r, "the pod is listed as NOTREADY", func() bool { return !isReady(r.status(id)) })
		r.stop(id)
		left := r.leases()
		testutil.Assert(t, len(left) == 0, "after StopPodSandbox %v is still given out", left)
		r.wantNotReady(id)
		r.remove(id)
		r.wantNothing(id)
	}
}

// A pod whose checkpoint was lost also gives its address back.
func TestLostCheckpointGivesTheAddressBack(t *testing.T) {
	r := newRig(t)
	id := r.run("web", 0)
	r.must(r.server.Stop(t.Context()))
	r.loseRecord(id)
	r.must(r.server.Start(t.Context()))
	r.wantNotReady(id)
	r.removeLast(id)
}

// A sandbox that was started again has lost its network.
func TestSandboxThatWasStartedAgainIsNotReady(t *testing.T) {
	r := newRig(t)
	r.pid = runtimeapi.NamespaceMode_POD // with a sandbox container
	for name, watched := range map[string]bool{"watched": true, "unwatched": false} {
		id := r.run(name, 0)
		if !watched {
			r.must(r.server.Stop(t.Context()))
		}
		r.must(r.engine.KillContainer(t.Context(), id, "SIGKILL"))
		testutil.Until(r, "the sandbox can be started", func() bool {
			inspect, err := r.engine.InspectContainer(t.Context(), id)
			return err == nil && !inspect.State.Running
		})
		r.must(r.engine.StartContainer(t.Context(), id))
		if !watched {
			r.must(r.server.Start(t.Context()))
		}
		testutil.Until(r, "the pod is NOTREADY", func() bool { return !isReady(r.status(id)) })
		time.Sleep(100 * time.Millisecond)
		r.wantNotReady(id)
		r.removeLast(id)
	}
}

// A pod is stopped with the CNI configuration that it was joined with.
func TestPodStopsWithoutTheCNIConfiguration(t *testing.T) {
	r := newRig(t)
	id := r.run("web", 0)
	r.must(os.Rename(r.server.CNIConfig(), r.server.CNIConfig()+".away"))
	testutil.Until(r, "the network is reported as not ready", func() bool {
		ready, _ := r.networkReady()
		return !ready
	})
	_, err := r.tryRun(r.config("other", 0), "")
	testutil.Assert(t, err != nil, "a pod was made without a network")
	r.wantReady(id)
	r.removeLast(id)

	r.must(os.Rename(r.server.CNIConfig()+".away", r.server.CNIConfig()))
	testutil.Until(r, "the network is ready again", func() bool {
		ready, _ := r.networkReady()
		return ready
	})
	other := r.run("other", 0)
	r.end(other)
	r.wantNothing(id, other)
}

// The rig's engine has no bridge, so a pod gets no address. RunPodSandbox fails and leaves no container.
func TestEngineWithoutABridgeMakesNoReadyPod(t *testing.T) {
	r := newRig(t)
	r.must(r.server.Stop(t.Context()))
	bridged := r.bridged()
	if id, err := bridged.tryRun(bridged.config("web", 0), ""); err == nil {
		t.Errorf("pod %s was made: %v", id, bridged.status(id))
	}
	left := bridged.containers(t.Context())
	testutil.Assert(t, len(left) == 0, "the engine still has %v", left)
}

// On the engine's bridge, a sandbox that is started again gets another network namespace, whereas the pod's containers
// stay in the old one. The pod is not ready, so that the kubelet makes it anew.
func TestBridgedSandboxThatWasStartedAgain(t *testing.T) {
	r := newBridgedRig(t)
	id := r.run("web", 0)
	r.must(r.engine.KillContainer(t.Context(), id, "SIGKILL"))
	testutil.Until(t, "the pod is NOTREADY", func() bool { return !isReady(r.status(id)) })
	other := r.run("other", 0) // takes the address, or the next one
	r.must(r.engine.StartContainer(t.Context(), id))
	inspect, err := r.engine.InspectContainer(t.Context(), id)
	r.must(err)
	want := docker.Addresses(inspect)[0]
	for _, when := range []string{"watched", "after a restart of criadapter"} {
		testutil.Until(t, "the pod has its address "+want, func() bool {
			return r.status(id).GetNetwork().GetIp() == want
		})
		testutil.Assert(t, !isReady(r.status(id)), "%s: the pod is READY", when)
		r.restart()
	}
	r.end(id, other)
}
