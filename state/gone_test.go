package state

import (
	"context"
	"testing"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// wantEnd checks that a container is shown with an exit code.
func (n *node) wantEnd(id string, exitCode int) {
	n.Helper()
	n.wantContainer(id, exited)
	status := n.container(id).Status
	testutil.Assert(n, status.ExitCode == exitCode && status.PID == 0 && !status.FinishedAt.Before(status.StartedAt),
		"the end is %+v, want exit code %d", status, exitCode)
}

// docker container prune may remove an ended container before the kubelet has seen its end.
func TestEndedContainerThatOthersRemoveStays(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.endedContainer(7)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(20 * time.Minute) // several relists
		caughtUp()
		n.wantEnd(id, 7)
		n.cache.RemoveContainer(id)
		n.wantUnknown(id)
		n.pod(podID)
	})
}

// A container that was never started has no end to report.
func TestCreatedContainerThatOthersRemoveIsForgotten(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		id := n.createContainer(podID, "web", "app")
		n.sync()
		n.must(n.engine.RemoveContainer(n.Context(), id))
		caughtUp()
		n.wantUnknown(id)
	})
}

// Without a pod there is no kubelet that removes the container.
func TestEndedContainerWithoutItsPodIsForgotten(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.endedContainer(7)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		caughtUp()
		n.wantEnd(id, 7)
		n.records.remove(podID)
		n.must(n.engine.RemoveContainer(n.Context(), podID))
		time.Sleep(6 * time.Minute) // a relist
		caughtUp()
		n.wantUnknown(podID)
		n.wantUnknown(id)
	})
}

// A container that was removed before an inspect gets its end from the engine's event.
func TestEndIsKnownFromItsEventAlone(t *testing.T) {
	type testCase struct {
		started bool
		label   string
		known   bool
	}
	onNodes(t, dockertest.Options{EventLag: -1}, map[string]testCase{
		"seen running":                {started: true, known: true},
		"seen created only":           {known: true},
		"a label hides the exit code": {started: true, label: "0"},
	}, func(n *node, test testCase) {
		var hooks []int
		n.cache.OnExit(func(_ context.Context, c *Container) { hooks = append(hooks, c.Status.ExitCode) })
		podID := n.startPod("web")
		spec := n.containerSpec(podID, "web", "app")
		if test.label != "" {
			spec.Config.Labels["exitCode"] = test.label
		}
		id, err := n.engine.CreateContainer(n.Context(), spec)
		n.must(err)
		if test.started {
			n.start(id)
		}
		n.sync()
		if !test.started {
			n.start(id)
		}
		n.must(n.engine.Exit(id, 7))
		n.must(n.engine.RemoveContainer(n.Context(), id))
		caughtUp()
		if !test.known {
			n.wantUnknown(id)
			return
		}
		n.wantEnd(id, 7)
		testutil.Assert(n, len(hooks) == 1 && hooks[0] == 7, "exit hooks ran for %v", hooks)
		time.Sleep(20 * time.Minute)
		n.wantEnd(id, 7)
	})
}

// The log of an ended container may still be copied when the container is removed.
func TestEndIsPublishedWhenItsContainerIsRemovedDuringTheExitHook(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		hooks := 0
		n.cache.OnExit(func(context.Context, *Container) {
			hooks++
			time.Sleep(time.Second)
		})
		n.sync()
		n.must(n.engine.Exit(id, 7))
		time.Sleep(time.Second / 2)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(2 * time.Second)
		caughtUp()
		n.wantEnd(id, 7)
		testutil.Equal(t, hooks, 1, "exit hooks")
	})
}

// The event of the removal may be lost. A relist finds the removal then.
func TestEndWithoutTheEventOfTheRemoval(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		n.engine.loseEvents(func(event docker.Event) bool { return event.Kind == docker.ContainerRemoved })
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(6 * time.Minute)
		caughtUp()
		n.wantEnd(id, 137)
	})
}

// A label can hide the exit code in the die event. Then the event's end is not used, and the container is forgotten.
func TestHiddenExitCodeIsNotShown(t *testing.T) {
	onNode(t, dockertest.Options{EventLag: -1}, func(n *node) {
		podID := n.startPod("web")
		spec := n.containerSpec(podID, "web", "app")
		spec.Config.Labels["exitCode"] = "0"
		id, err := n.engine.CreateContainer(n.Context(), spec)
		n.must(err)
		n.start(id)
		n.sync()
		n.engine.loseEvents(func(event docker.Event) bool { return event.Kind == docker.ContainerRemoved })
		n.must(n.engine.Exit(id, 7))
		n.must(n.engine.RemoveContainer(n.Context(), id))
		time.Sleep(6 * time.Minute)
		caughtUp()
		n.wantUnknown(id)
	})
}
