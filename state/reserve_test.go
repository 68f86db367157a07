package state

import (
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// make makes a pod under a reserved name in the engine and in the records, as sandbox.Service does. publish puts it
// into the cache.
func (n *node) make(name string) (id string, publish func()) {
	n.Helper()
	id = n.startPod(name)
	caughtUp()
	inspect, err := n.engine.Engine.InspectContainer(n.Context(), id)
	n.must(err)
	return id, func() { n.cache.PutPod(NewPod(n.Context(), inspect, readyRecord(id, name))) }
}

func reserved(n *node, name string) (release func()) {
	n.Helper()
	release, err := n.cache.Reserve(translate.SandboxName(podConfig(name).Metadata))
	n.must(err)
	return release
}

func TestReservedContainerIsNotShownUntilItsMakerPublishesIt(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		release := reserved(n, "web")
		id, publish := n.make("web")
		n.wantUnknown(id)
		n.must(n.cache.relist(n.Context(), n.cache.agrees))
		n.wantUnknown(id)
		_, err := n.cache.RefreshPod(n.Context(), id)
		testutil.Fails(n, err, errdefs.IsNotFound, "a refresh showed the pod")
		inspects := n.engine.Calls("InspectContainer")
		publish()
		n.wantPod(id, podReady)
		release()
		settle()
		n.wantPod(id, podReady)
		testutil.Equal(n, n.engine.Calls("InspectContainer")-inspects, 0,
			"inspects for a pod that its creator has just inspected")
	})
}

func TestReleaseShowsWhatItsMakerGaveUp(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		release := reserved(n, "web")
		id, _ := n.make("web")
		release()
		caughtUp()
		n.pod(id)
	})
}

// The sandbox may exit between its creator's inspect and the publication.
func TestDeathDuringTheMakingIsSeenAtTheRelease(t *testing.T) {
	onNodes(t, dockertest.Options{}, map[string]func(*node, string){
		"it exits": func(n *node, id string) { n.must(n.engine.Exit(id, 1)) },
		"it is removed": func(n *node, id string) {
			n.must(n.engine.RemoveContainer(n.Context(), id))
		},
	}, func(n *node, die func(*node, string)) {
		n.sync()
		release := reserved(n, "web")
		id, publish := n.make("web")
		die(n, id)
		caughtUp()
		publish()
		release()
		settle()
		n.wantPod(id, podNotReady)
	})
}

// The sandbox may exit while the engine is away.
func TestDeathDuringTheMakingIsSeenAfterAReconnect(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		release := reserved(n, "web")
		id, publish := n.make("web")
		n.engine.Away()
		n.must(n.engine.Exit(id, 1))
		publish()
		release()
		n.wantPod(id, podReady) // the exit is not seen yet
		n.engine.Back()
		settle()
		n.wantPod(id, podNotReady)
	})
}

func TestReserveKeepsOthersOut(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		release := reserved(n, "web")
		_, err := n.cache.Reserve(translate.SandboxName(podConfig("web").Metadata))
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "a second Reserve returned %v, want AlreadyExists", err)
		reserved(n, "another")()
		release()
		reserved(n, "web")()
	})
}

// A request that will be refused may reserve the name of a known container. Events of the container are handled
// meanwhile.
func TestReservationDoesNotHideAKnownContainer(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		id := n.createContainer(podID, "web", "app")
		n.sync()
		release, err := n.cache.Reserve(n.container(id).Meta.Name)
		n.must(err)
		n.start(id)
		caughtUp()
		n.wantContainer(id, running)
		release()
		settle()
		n.wantContainer(id, running)
	})
}

// A roll-back removed the container and failed to delete the checkpoint. The pod is listed, so that the kubelet removes
// it.
func TestPodOfAFailedRollBackIsShownFromItsCheckpoint(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		release := reserved(n, "web")
		id, _ := n.make("web")
		n.must(n.engine.RemoveContainer(n.Context(), id))
		caughtUp()
		n.wantUnknown(id)
		release()
		caughtUp()
		n.wantPod(id, podNotReady)
	})
}

// A roll-back that succeeded leaves no pod, even if its events arrive before the checkpoint is deleted.
func TestPodOfARollBackIsNeverShown(t *testing.T) {
	onNode(t, dockertest.Options{Flavor: dockertest.Docker29}, func(n *node) {
		n.sync()
		release := reserved(n, "web")
		id, _ := n.make("web")
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(time.Millisecond) // its events arrive before the checkpoint is gone
		n.records.remove(id)
		release()
		settle()
		n.wantUnknown(id)
	})
}
