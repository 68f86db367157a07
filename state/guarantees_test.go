package state

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The tests of this file check the guarantees of the package comment, in their order.

func TestSnapshotIsImmutable(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		before := n.cache.Snapshot()
		pods, containers := slices.Clone(before.Pods()), slices.Clone(before.Containers())
		pod, app := *pods[0], *containers[0]

		n.cache.UpdatePod(podID, func(s *PodStatus) { s.Stopping = true })
		n.cache.UpdateContainer(id, func(s *ContainerStatus) { s.ExitCode = 3 })
		n.cache.PutPod(Pod{ID: "another"})
		n.cache.RemoveContainer(id)

		testutil.Assert(n, slices.Equal(before.Pods(), pods) && slices.Equal(before.Containers(), containers),
			"writes changed an older snapshot's lists")
		testutil.Assert(n, pods[0].Status.Stopping == pod.Status.Stopping &&
			containers[0].Status.ExitCode == app.Status.ExitCode, "writes changed an older snapshot's entries")
		_, err := before.Container(id)
		testutil.Check(n, err, "an older snapshot lost a container")
		if len(before.ContainersOf(podID)) != 1 {
			n.Errorf("an older snapshot's pod has %d containers", len(before.ContainersOf(podID)))
		}
	})
}

// A reader does not wait for a writer that holds the lock.
func TestReadersDoNotWaitForWriters(t *testing.T) {
	n := newNode(t, dockertest.Options{})
	defer n.engine.Close()
	n.cache.PutPod(Pod{ID: "p"})
	n.cache.PutContainer(Container{ID: "c", SandboxID: "p"})
	n.cache.mu.Lock()
	defer n.cache.mu.Unlock()
	read := testutil.Go(func() error {
		snapshot := n.cache.Snapshot()
		_, podErr := snapshot.Pod("p")
		_, containerErr := snapshot.Container("c")
		err := errors.Join(podErr, containerErr)
		if len(snapshot.Pods()) != 1 || len(snapshot.Containers()) != 1 || len(snapshot.ContainersOf("p")) != 1 {
			err = errors.New("the lists differ from the snapshot")
		}
		return err
	})
	n.must(testutil.Receive(t, read, "the reader waits for the writer"))
}

func TestOwnWritesAreReadAtOnce(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.cache.PutPod(Pod{ID: "p"})
		n.pod("p")
		n.cache.UpdatePod("p", func(s *PodStatus) { s.Running, s.NetworkReady = true, true })
		n.wantPod("p", podReady)
		n.cache.PutContainer(Container{ID: "c", SandboxID: "p"})
		n.wantContainer("c", created)
		n.cache.UpdateContainer("c", func(s *ContainerStatus) { s.Running = true })
		n.wantContainer("c", running)
		n.cache.RemoveContainer("c")
		n.wantUnknown("c")
		n.cache.RemovePod("p")
		n.wantUnknown("p")
	})
}

// A refresh publishes its answer without an event.
func TestRefreshShowsWhatTheCallerDid(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		id := n.createContainer(podID, "web", "app")
		n.engine.loseEvents(allEvents)
		n.sync()
		n.start(id)
		got, err := n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		if got.Status.State() != running || n.container(id) != got {
			n.Errorf("after the start the refresh returned %v and the snapshot has %v", got.Status,
				n.container(id).Status)
		}
		n.must(n.engine.StopContainer(n.Context(), podID, 0))
		pod, err := n.cache.RefreshPod(n.Context(), podID)
		n.must(err)
		testutil.Assert(n, pod.Status.State() == podNotReady && n.pod(podID) == pod,
			"after the stop the refresh returned %v", pod.Status)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		_, err = n.cache.RefreshContainer(n.Context(), id)
		testutil.Fails(n, err, errdefs.IsNotFound, "after the removal the refresh")
		caughtUp()
		n.wantUnknown(id)
	})
}

func TestAnswerAskedForBeforeAWriteIsThrownAway(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		n.engine.loseEvents(allEvents)
		arrived, release := n.engine.holdInspect(id)
		done := n.refreshing(id)
		<-arrived
		// The answer "running" is under way when a writer publishes the exit.
		n.must(n.engine.Exit(id, 7))
		inspect, err := n.engine.Engine.InspectContainer(n.Context(), id)
		n.must(err)
		newer := *n.container(id)
		newer.Status = containerStatus(inspect)
		n.cache.PutContainer(newer)
		calls := n.engine.Calls("InspectContainer")
		release()
		n.must(<-done)
		n.wantContainer(id, exited)
		again := n.engine.Calls("InspectContainer") - calls
		testutil.Assert(n, again == 1, "the engine was asked %d more times, want once", again)
	})
}

// A write does not discard the answer about another entry.
func TestWriteOfOneEntryDoesNotDelayAnother(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		n.engine.loseEvents(allEvents)
		n.must(n.engine.Exit(id, 7))
		arrived, release := n.engine.holdInspect(id)
		done := n.refreshing(id)
		<-arrived
		calls := n.engine.Calls("InspectContainer")
		n.cache.UpdatePod(podID, func(s *PodStatus) { s.Stopping = true })
		release()
		n.must(<-done)
		n.wantContainer(id, exited)
		again := n.engine.Calls("InspectContainer") - calls
		testutil.Assert(n, again == 0, "the engine was asked %d more times, want none", again)
	})
}

// A refresh of an entry that is written all the time pauses between its inspects and ends with its context. It succeeds
// once the writes stop.
func TestRefreshOfAnEntryThatIsWrittenAllTheTime(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		n.engine.onInspect(func(answer *container.InspectResponse) {
			n.cache.UpdateContainer(id, func(*ContainerStatus) {})
		})
		before := n.engine.Calls("InspectContainer")
		ctx, cancel := context.WithTimeout(n.Context(), 10*time.Second)
		defer cancel()
		_, err := n.cache.RefreshContainer(ctx, id)
		testutil.Assert(n, errors.Is(err, context.DeadlineExceeded),
			"the refresh returned %v, want the end of its context", err)
		looks := n.engine.Calls("InspectContainer") - before
		testutil.Assert(n, looks >= 50 && looks <= 150, "%d looks in 10 s, want about ten a second", looks)
		n.engine.onInspect(nil)
		_, err = n.cache.RefreshContainer(n.Context(), id)
		testutil.Check(n, err)
	})
}

func TestRemovedIDNeverComesBack(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		arrived, release := n.engine.holdInspect(id)
		done := n.refreshing(id)
		<-arrived
		known := *n.container(id)
		n.must(n.engine.RemoveContainer(n.Context(), id))
		n.cache.RemoveContainer(id)
		n.cache.PutContainer(known)
		n.cache.UpdateContainer(id, func(s *ContainerStatus) { s.Running = true })
		n.wantUnknown(id)
		// Relists do not drop the tombstone while the answer is under way.
		for range 5 {
			n.must(n.cache.relist(n.Context(), trustNothing))
		}
		release()
		testutil.Fails(n, <-done, errdefs.IsNotFound, "the refresh")
		settle()
		n.wantUnknown(id)
	})
}

// A tombstone lasts only while an older answer is under way, so that pods that come and go cost no memory.
func TestRemovedIDsAreForgotten(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		for range 100 {
			podID, id := n.startContainer("app")
			caughtUp()
			n.must(n.engine.RemoveContainer(n.Context(), id))
			n.cache.RemoveContainer(id)
			n.must(n.engine.RemoveContainer(n.Context(), podID))
			n.records.remove(podID)
			n.cache.RemovePod(podID)
			n.cache.UpdatePod("never seen", func(*PodStatus) {})
			n.cache.UpdateContainer("never seen", func(*ContainerStatus) {})
		}
		caughtUp()
		n.must(n.cache.relist(n.Context(), n.cache.agrees))
		m := n.cache
		m.mu.Lock()
		defer m.mu.Unlock()
		for name, size := range map[string]int{
			"pods": len(m.Snapshot().Pods()), "containers": len(m.Snapshot().Containers()), "written": len(m.written),
			"removed": len(m.removed), "asked": len(m.asked), "looks": len(m.looks), "reserved": len(m.reserved),
			"pending": len(m.refreshes.pending),
		} {
			testutil.Assert(n, size == 0, "%d entries are left in %s", size, name)
		}
	})
}

func TestExitedNeverRunsAgainUnderOneStart(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		before, err := n.engine.InspectContainer(n.Context(), id)
		n.must(err)
		n.must(n.engine.Exit(id, 0))
		caughtUp()
		n.wantContainer(id, exited)
		// The engine answers with an old inspect.
		merged, err := n.cache.merge(n.Context(), before, n.cache.ask())
		testutil.Require(n, merged && err == nil, "merge: %v, %v", merged, err)
		n.wantContainer(id, exited)
		// A second start is published.
		time.Sleep(time.Millisecond)
		n.start(id)
		caughtUp()
		n.wantContainer(id, running)
	})
}

// After a die event, the list of Docker 20.10 still shows the container as running for a moment. A relist at that
// moment does not undo the exit, and a cache that starts at that moment reports the exit.
func TestListThatLagsBehindADieIsNotBelieved(t *testing.T) {
	onNode(t, dockertest.Options{Flavor: dockertest.Docker20, EventLag: time.Hour}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		n.must(n.engine.Exit(id, 7))
		n.must(n.engine.Exit(podID, 0))
		list, err := n.engine.ListContainers(n.Context(), nil)
		n.must(err)
		testutil.Require(n, list[0].State == container.StateRunning && list[1].State == container.StateRunning,
			"the engine's list does not lag")
		caughtUp()
		n.wantContainer(id, exited)
		n.wantPod(podID, podNotReady)
		n.must(n.cache.relist(n.Context(), n.cache.agrees))
		n.wantContainer(id, exited)
		n.wantPod(podID, podNotReady)

		n.restart()
		n.wantContainer(id, exited)
		n.wantPod(podID, podNotReady)
	})
}

// A change from outside is visible after eventPause and one inspect.
func TestEventFromOutsideIsSeenAfterOneInspect(t *testing.T) {
	const inspect = 30 * time.Millisecond
	type testCase struct {
		happens func(*node, string) error
		seen    func(*node, string) bool
	}
	onNodes(t, dockertest.Options{EventLag: -1}, map[string]testCase{
		"exit": {
			func(n *node, id string) error { return n.engine.Exit(id, 7) },
			func(n *node, id string) bool { return n.container(id).Status.State() == exited },
		},
		"removal": {
			func(n *node, id string) error { return n.engine.RemoveContainer(n.Context(), id) },
			func(n *node, id string) bool { return n.container(id).Status.State() == exited },
		},
	}, func(n *node, test testCase) {
		_, id := n.startContainer("app")
		n.sync()
		settle()
		n.engine.Inject("InspectContainer", dockertest.Fault{Delay: inspect})
		n.must(test.happens(n, id))
		time.Sleep(eventPause + inspect + time.Millisecond)
		synctest.Wait()
		testutil.Assert(n, test.seen(n, id), "it is not seen after %s", eventPause+inspect)
	})
}

func TestExitHookRunsBeforeTheExitIsPublished(t *testing.T) {
	onNodes(t, dockertest.Options{}, map[string]func(*node, string){
		"seen running": func(n *node, id string) {
			n.start(id)
			caughtUp()
			n.wantContainer(id, running)
			n.must(n.engine.Exit(id, 7))
		},
		"seen created only": func(n *node, id string) {
			n.start(id)
			n.must(n.engine.Exit(id, 7))
		},
		"found by the caller": func(n *node, id string) {
			n.engine.loseEvents(allEvents)
			n.start(id)
			n.must(n.engine.Exit(id, 7))
			_, err := n.cache.RefreshContainer(n.Context(), id)
			n.must(err)
		},
		"found by the relist": func(n *node, id string) {
			n.start(id)
			caughtUp()
			n.engine.loseEvents(allEvents)
			n.must(n.engine.Exit(id, 7))
			time.Sleep(6 * time.Minute)
		},
		"found after the engine was away": func(n *node, id string) {
			n.start(id)
			n.engine.Away()
			n.must(n.engine.Exit(id, 7))
			n.engine.Back()
			settle()
		},
		"at the end of a second run": func(n *node, id string) {
			n.start(id)
			n.must(n.engine.Exit(id, 0))
			settle()
			n.engine.loseEvents(func(e docker.Event) bool { return e.Kind == docker.ContainerStarted })
			n.start(id)
			n.must(n.engine.Exit(id, 7))
		},
	}, func(n *node, exit func(*node, string)) {
		podID := n.startPod("web")
		id := n.createContainer(podID, "web", "app")
		hooked := 0
		n.cache.OnExit(func(_ context.Context, c *Container) {
			testutil.Assert(n, c.ID == id && c.Status.State() == exited, "the hook got %s, %v", c.ID, c.Status)
			if c.Status.ExitCode != 7 {
				return // the first of two runs
			}
			hooked++
			testutil.Assert(n, n.container(id).Status.ExitCode != 7,
				"the exit was published before its hook ended")
			time.Sleep(time.Second) // other goroutines run meanwhile
			testutil.Assert(n, n.container(id).Status.ExitCode != 7,
				"the exit was published before its hook ended")
		})
		n.sync()
		exit(n, id)
		settle()
		n.wantContainer(id, exited)
		if got := n.container(id).Status.ExitCode; got != 7 || hooked == 0 {
			n.Errorf("exit code %d after %d calls of the hook, want 7 after at least one", got, hooked)
		}
	})
}

// An exit whose hook was interrupted is published after the next inspect.
func TestExitIsPublishedLaterWhenItsHookWasCutShort(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		drained := make(chan struct{})
		n.cache.OnExit(func(ctx context.Context, _ *Container) {
			select {
			case <-drained:
			case <-ctx.Done():
			}
		})
		n.sync()
		n.must(n.engine.Exit(id, 7))
		caughtUp()
		n.engine.Away() // ends the hook
		settle()
		n.wantContainer(id, running)
		close(drained)
		n.engine.Back()
		settle()
		n.wantContainer(id, exited)
	})
}

// A slow exit hook delays its own container only.
func TestSlowExitHookDelaysOnlyItsContainer(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, slow := n.startContainer("slow")
		_, quick := n.startContainer("quick")
		n.cache.OnExit(func(ctx context.Context, c *Container) {
			if c.ID == slow {
				<-ctx.Done()
			}
		})
		n.sync()
		n.must(n.engine.Exit(slow, 0))
		n.must(n.engine.Exit(quick, 0))
		caughtUp()
		n.wantContainer(quick, exited)
		n.wantContainer(slow, running)
	})
}
