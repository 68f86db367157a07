package state

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A pod whose sandbox another program removed may still hold an address.
func TestPodWithACheckpointStaysNotReadyWhenItsContainerIsRemoved(t *testing.T) {
	onNodes(t, dockertest.Options{}, map[string]func(docker.Event) bool{
		"from an event":       nil,
		"found by the relist": allEvents,
	}, func(n *node, lost func(docker.Event) bool) {
		podID, id := n.startContainer("app")
		n.sync()
		n.engine.loseEvents(lost)
		n.must(n.engine.RemoveContainer(n.Context(), podID))
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(20 * time.Minute) // several relists
		caughtUp()
		pod := n.pod(podID)
		testutil.Assert(n, pod.Status.State() == podNotReady && pod.Status.PID == 0 &&
			!pod.Status.finishedAt.Before(pod.Status.StartedAt), "the pod is %+v", pod.Status)
		testutil.Assert(n, slices.Equal(pod.Status.IPs, []string{"10.88.0.2", "fd00::2"}) &&
			pod.Status.NetnsPath != "", "the pod's network is forgotten: %+v", pod.Status)
		if lost == nil {
			n.wantEnd(id, killedExitCode)
		} else {
			n.wantUnknown(id)
		}
		// The checkpoint is deleted without a write to the cache.
		n.records.remove(podID)
		time.Sleep(6 * time.Minute)
		n.wantUnknown(podID)
	})
}

// An unreadable checkpoint counts as a checkpoint.
func TestPodWithAnUnreadableCheckpointStaysWhenItsContainerIsRemoved(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		n.sync()
		n.records.fail(errors.New("an input/output error"))
		n.must(n.engine.RemoveContainer(n.Context(), podID))
		settle()
		n.wantPod(podID, podNotReady)
	})
}

func TestPodWithoutACheckpointIsForgottenWhenItsContainerIsRemoved(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.createPod("web")
		n.sync()
		n.pod(podID)
		n.must(n.engine.RemoveContainer(n.Context(), podID))
		caughtUp()
		n.wantUnknown(podID)
	})
}

func TestPodsKnownFromTheirCheckpointAloneAreShownAfterAStart(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		record := readyRecord("gone", "web")
		record.CreatedAt = time.Unix(1000, 0)
		n.records.save(record)
		stopped := readyRecord("stopped", "old")
		stopped.Phase = checkpoint.PhaseStopped
		n.records.save(stopped)
		there := n.startPod("there")
		n.records.fail(errors.New("another record cannot be read"))
		n.sync()

		pod := n.pod("gone")
		n.wantPod("gone", podNotReady)
		testutil.Assert(n, pod.Meta.Name == translate.SandboxName(podConfig("web").Metadata) &&
			pod.Meta.Config.GetLabels()["app"] == "web" && pod.Meta.CreatedAt.Equal(record.CreatedAt) &&
			pod.Status.NetnsPath == "/run/netns/web" && len(pod.Status.IPs) == 2, "the pod is %+v", pod)
		n.wantPod("stopped", podNotReady)
		n.pod(there)
		testutil.Equal(n, len(n.cache.Snapshot().Pods()), 3, "pods")
		// Only the first relist lists all records. Later relists do not look for new records.
		n.records.save(readyRecord("late", "late"))
		time.Sleep(20 * time.Minute)
		n.wantUnknown("late")
		n.wantPod("gone", podNotReady)
	})
}

// A record with damaged configuration is enough to show the pod.
func TestPodWithADamagedConfigurationIsShownFromItsMetadata(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		record := readyRecord("gone", "web")
		record.Config = []byte(`{"metadata": 7}`)
		n.records.save(record)
		n.sync()
		metadata := n.pod("gone").Meta.Config.GetMetadata()
		testutil.Assert(n, metadata.GetName() == "web" && metadata.GetNamespace() == "default" &&
			metadata.GetUid() == "uid-web", "the pod's metadata is %v", metadata)
	})
}

// A sandbox that was started again has a new network namespace, which CNI has not set up.
func TestSandboxThatWasStartedAgainIsNotReady(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		n.sync()
		n.wantPod(podID, podReady)
		n.must(n.engine.Exit(podID, 0))
		caughtUp()
		time.Sleep(time.Second)
		n.start(podID)
		caughtUp()
		pod := n.pod(podID)
		testutil.Assert(n, pod.Status.Running && pod.Status.State() == podNotReady, "the pod is %+v", pod.Status)
	})
}
