package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCacheStartsBeforeTheEngine(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.engine.Away()
		err := n.cache.Err()
		testutil.Assert(n, errdefs.IsUnavailable(err), "before Run Err is %v, want Unavailable", err)
		n.follow()
		settle()
		if err := n.cache.Err(); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "the engine is away") {
			n.Errorf("Err is %v, want Unavailable with the engine's reason", err)
		}
		ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
		defer cancel()
		err = n.cache.WaitSynced(ctx)
		testutil.Assert(n, errors.Is(err, context.DeadlineExceeded), "WaitSynced returned %v without an engine", err)
		n.engine.Back()
		n.must(n.cache.WaitSynced(n.Context()))
		n.must(n.cache.Err())
		n.wantPod(podID, podReady)
		n.wantContainer(id, running)
	})
}

func TestEngineAwayKeepsSnapshotsAndTellsWhy(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		before := n.cache.Snapshot()
		n.engine.Away()
		settle()
		err := n.cache.Err()
		testutil.Assert(n, errdefs.IsUnavailable(err), "Err is %v, want Unavailable", err)
		testutil.Assert(n, n.cache.Snapshot() == before, "the snapshot changed while the engine was away")
		n.wantPod(podID, podReady)
		n.wantContainer(id, running)
		_, err = n.cache.RefreshContainer(n.Context(), id)
		testutil.Assert(n, errdefs.IsUnavailable(err), "a refresh returned %v, want Unavailable", err)
		n.must(n.cache.WaitSynced(n.Context())) // it was synced once, and stays so
	})
}

// Err is the reason why an engine is refused, for the operator.
func TestRefusedEngineIsReportedAsItIs(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		refused := errdefs.ErrFailedPrecondition.WithMessage("Docker Engine 19.03 is too old")
		remove := n.engine.Inject("Features", dockertest.Fault{Err: refused})
		n.follow()
		settle()
		if err := n.cache.Err(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "too old") {
			n.Errorf("Err is %v", err)
		}
		remove()
		settle()
		n.must(n.cache.Err())
	})
}

// A container that runs before and after a lost connection may have restarted meanwhile.
func TestReconnectInspectsEverything(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		pod, ended := n.startContainer("ended")
		_, again := n.startContainer("again")
		_, gone := n.startContainer("gone")
		n.sync()
		first := n.container(again).Status
		n.engine.Away()
		settle()
		n.must(n.engine.Exit(ended, 5))
		n.must(n.engine.Exit(again, 1))
		n.engine.Back()
		// The container starts again before the cache is connected.
		time.Sleep(time.Microsecond)
		n.start(again)
		n.must(n.engine.RemoveContainer(n.Context(), gone))
		fresh := n.createContainer(pod, "pod-of-ended", "fresh")
		settle()

		n.must(n.cache.Err())
		n.wantContainer(ended, exited)
		testutil.Equal(n, n.container(ended).Status.ExitCode, 5, "exit code")
		now := n.container(again).Status
		testutil.Assert(n, now.State() == running && now.PID != first.PID && now.StartedAt.After(first.StartedAt),
			"the second run is not seen: %+v after %+v", now, first)
		n.wantUnknown(gone)
		n.wantContainer(fresh, created)
	})
}

// The connection breaks again and again.
func TestCacheSurvivesAFlappingEngine(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		for range 20 {
			n.engine.Away()
			time.Sleep(50 * time.Millisecond)
			n.engine.Back()
			time.Sleep(50 * time.Millisecond)
		}
		n.engine.Crash()
		time.Sleep(time.Second)
		n.engine.Back()
		settle()
		n.must(n.cache.Err())
		n.wantPod(podID, podNotReady)
		n.wantContainer(id, exited)
	})
}

// An engine whose event stream stays open while it answers nothing is not healthy.
func TestFailedRelistIsAReasonNotToBeReady(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		remove := n.engine.Inject("ListContainers", dockertest.Fault{Err: errors.New("a bug in the engine")})
		time.Sleep(6 * time.Minute)
		if err := n.cache.Err(); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "a bug in the engine") {
			n.Errorf("Err is %v, want Unavailable with the reason", err)
		}
		remove()
		settle()
		n.must(n.cache.Err())
	})
}

func TestRelistRepairsWhatEventsDidNotTell(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, ended := n.startContainer("ended")
		name := "pod-of-ended"
		both := n.createContainer(podID, name, "both")
		gone := n.createContainer(podID, name, "gone")
		n.sync()
		n.engine.loseEvents(allEvents)
		n.must(n.engine.Exit(ended, 5))
		n.start(both)
		n.must(n.engine.Exit(both, 6))
		n.must(n.engine.RemoveContainer(n.Context(), gone))
		fresh := n.createContainer(podID, name, "fresh")
		second := n.startPod("second")
		n.must(n.engine.Exit(podID, 0))
		time.Sleep(6 * time.Minute)
		caughtUp()

		n.wantContainer(ended, exited)
		n.wantContainer(both, exited)
		n.wantUnknown(gone)
		n.wantContainer(fresh, created)
		n.wantPod(second, podReady)
		n.wantPod(podID, podNotReady)
	})
}

// A relist that finds nothing new costs one call.
func TestRelistOfAQuietNodeInspectsNothing(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		_, ended := n.startContainer("ended")
		n.must(n.engine.Exit(ended, 0))
		n.sync()
		inspects, lists := n.engine.Calls("InspectContainer"), n.engine.Calls("ListContainers")
		time.Sleep(26 * time.Minute)
		testutil.Equal(n, n.engine.Calls("InspectContainer")-inspects, 0, "inspects")
		got := n.engine.Calls("ListContainers") - lists
		testutil.Assert(n, got == 5, "%d lists in 26 minutes, want one every 5", got)
		n.wantContainer(id, running)
	})
}

// A pod that is published while a list is under way stays, although the list lacks it.
func TestRelistDoesNotDropWhatIsNewerThanItsList(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		var id string
		n.engine.onList(func([]container.Summary) {
			n.engine.onList(nil)
			release := reserved(n, "web")
			var publish func()
			id, publish = n.make("web")
			publish()
			release()
		})
		n.must(n.cache.relist(n.Context(), n.cache.agrees))
		n.wantPod(id, podReady)
	})
}

// An exit whose inspect fails must not wait for the next relist.
func TestInspectThatFailsAfterAnEventIsTriedAgain(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		n.engine.Inject("InspectContainer", dockertest.Fault{Object: id, Times: 5, Err: errdefs.ErrInternal})
		n.must(n.engine.Exit(id, 0))
		caughtUp()
		n.wantContainer(id, running)
		time.Sleep(4 * time.Second) // 0.1 + 0.2 + 0.4 + 0.8 + 1.6
		caughtUp()
		n.wantContainer(id, exited)
	})
}

// Docker can never inspect a container whose layer is gone.
func TestOneBrokenContainerDoesNotKeepTheCacheFromSyncing(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, healthy := n.startContainer("healthy")
		_, broken := n.startContainer("broken")
		repair := n.engine.Inject("InspectContainer", dockertest.Fault{
			Object: broken, Err: errdefs.ErrInternal.WithMessage("RWLayer is unexpectedly nil"),
		})
		ctx, cancel := context.WithTimeout(n.Context(), time.Second)
		defer cancel()
		n.follow()
		testutil.Must(n, n.cache.WaitSynced(ctx), "not synced")
		n.must(n.cache.Err())
		n.wantContainer(healthy, running)
		before := n.engine.Calls("InspectContainer")
		time.Sleep(4 * time.Minute)
		n.wantContainer(healthy, running)
		tries := n.engine.Calls("InspectContainer") - before
		testutil.Assert(n, tries <= refreshTries, "%d inspects of the broken container in 4 minutes", tries)
		repair()
		time.Sleep(6 * time.Minute)
		n.wantContainer(broken, running)
	})
}

// A pod has its addresses even while the engine can inspect its container but not its sandbox.
func TestPodOfASandboxThatCannotBeInspectedYet(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		repair := n.engine.Inject("InspectContainer", dockertest.Fault{Object: podID, Err: errdefs.ErrInternal})
		n.sync()
		for range 2 {
			n.wantPod(podID, podReady)
			n.wantContainer(id, running)
			pod := n.pod(podID)
			testutil.Assert(n, pod.Status.NetnsPath != "" && len(pod.Status.IPs) == 2, "the pod is %+v", pod.Status)
			repair()
			time.Sleep(6 * time.Minute)
		}
		pod := n.pod(podID)
		testutil.Assert(n, pod.Meta.ImageID != "" && pod.Status.PID != 0, "the pod is %+v", pod)
	})
}

// A sandbox that restarted while criadapter was down has lost its network, even if it cannot be inspected at first.
func TestRestartedSandboxThatCannotBeInspectedYet(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, _ := n.startContainer("app")
		n.must(n.engine.StopContainer(n.Context(), podID, 0))
		n.start(podID)
		repair := n.engine.Inject("InspectContainer", dockertest.Fault{Object: podID, Err: errdefs.ErrInternal})
		n.sync()
		repair()
		time.Sleep(6 * time.Minute)
		n.wantPod(podID, podNotReady)
	})
}

// An engine may never answer about one container, on a broken disk for example.
func TestInspectsThatHangDelayTheFirstSyncBrieflyOnly(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var healthy, hanging []string
		for i := range 6 {
			_, id := n.startContainer(fmt.Sprint("hangs", i))
			n.engine.Inject("InspectContainer", dockertest.Fault{Object: id, Block: true, Times: 1})
			hanging = append(hanging, id)
			_, id = n.startContainer(fmt.Sprint("healthy", i))
			healthy = append(healthy, id)
		}
		ctx, cancel := context.WithTimeout(n.Context(), 2*inspectPatience)
		defer cancel()
		n.follow()
		n.must(n.cache.WaitSynced(ctx))
		for _, id := range healthy {
			n.wantContainer(id, running)
		}
		time.Sleep(time.Second)
		for _, id := range hanging {
			n.wantContainer(id, running)
		}
	})
}

// A container that the relist could not inspect is inspected again before the next relist.
func TestContainerThatTheRelistCouldNotInspectIsTriedAgain(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.engine.Inject("InspectContainer", dockertest.Fault{Object: id, Times: 3, Err: errdefs.ErrInternal})
		n.sync()
		time.Sleep(time.Second)
		n.wantContainer(id, running)
	})
}

// The cache is not synced if the engine goes away during the first relist.
func TestRelistThatLosesTheEngineIsNotComplete(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.startContainer("app")
		n.engine.onList(func([]container.Summary) { n.engine.Away() })
		n.follow()
		settle()
		select {
		case <-n.cache.synced:
			n.Error("synced")
		default:
		}
		testutil.Fails(n, n.cache.Err(), errdefs.IsUnavailable, "Err")
	})
}

// Other containers on the node cost no inspects, even with health checks.
func TestEventsOfOtherContainersCostNothing(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		before := n.engine.Calls("InspectContainer")
		id, err := n.engine.CreateContainer(n.Context(),
			docker.ContainerSpec{Name: "theirs", Config: &container.Config{Image: testImage}})
		n.must(err)
		n.start(id)
		for range 10 {
			execID, err := n.engine.CreateExec(n.Context(), id, docker.ExecOptions{Command: []string{"probe"}})
			n.must(err)
			stream, err := n.engine.AttachExec(n.Context(), execID, docker.ExecOptions{})
			n.must(err)
			caughtUp()
			n.must(stream.Close())
		}
		n.must(n.engine.Exit(id, 0))
		n.must(n.engine.RemoveContainer(n.Context(), id))
		settle()
		testutil.Equal(n, n.engine.Calls("InspectContainer")-before, 0, "inspects")
		n.wantUnknown(id)
	})
}

// The list is requested after the subscription, so that no change between the two is missed.
func TestNothingIsMissedBetweenListAndEvents(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.engine.subscribing = time.Second
		n.follow()
		time.Sleep(time.Second / 2)
		n.must(n.engine.Exit(id, 0))
		n.must(n.cache.WaitSynced(n.Context()))
		settle()
		n.wantContainer(id, exited)
	})
}

// Any number of events during an inspect leads to one more inspect.
func TestEventDuringAnInspectIsFollowedByAnother(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID := n.startPod("web")
		id := n.createContainer(podID, "web", "app")
		n.sync()
		arrived, release := n.engine.holdInspect(id)
		n.start(id)
		<-arrived
		calls := n.engine.Calls("InspectContainer")
		n.must(n.engine.UpdateContainer(n.Context(), id, container.Resources{CPUShares: 5}))
		n.must(n.engine.UpdateContainer(n.Context(), id, container.Resources{CPUShares: 6}))
		n.must(n.engine.Exit(id, 0))
		caughtUp()
		release()
		caughtUp()
		n.wantContainer(id, exited)
		testutil.Equal(n, n.engine.Calls("InspectContainer")-calls, 1, "more inspects")
	})
}

// When Run returns, its exit hooks and hanging inspects have ended.
func TestRunEndsWithAllThatItStarted(t *testing.T) {
	onNodes(t, dockertest.Options{}, map[string]func(*node, string){
		"an exit from an event": func(n *node, id string) { n.must(n.engine.Exit(id, 0)) },
		"an exit found by the relist": func(n *node, id string) {
			n.engine.Away()
			n.must(n.engine.Exit(id, 0))
			n.engine.Back()
		},
		"a lost connection": func(n *node, id string) {
			n.must(n.engine.Exit(id, 0))
			caughtUp()
			n.engine.Away()
		},
	}, func(n *node, exit func(*node, string)) {
		_, id := n.startContainer("app")
		_, hanging := n.startContainer("hanging")
		var under atomic.Int32
		n.cache.OnExit(func(ctx context.Context, _ *Container) {
			under.Add(1)
			defer under.Add(-1)
			<-ctx.Done()
			time.Sleep(time.Second)
		})
		n.sync()
		n.engine.Inject("InspectContainer", dockertest.Fault{Object: hanging, Block: true})
		n.must(n.engine.Exit(hanging, 0))
		exit(n, id)
		time.Sleep(150 * time.Millisecond)
		caughtUp()
		testutil.Require(n, under.Load() != 0, "no exit hook is under way")
		n.stopCache()
		testutil.Equal(n, under.Load(), 0, "exit hooks are under way after Run returned")
	})
}

// A service that starts a container inspects it. The event of the start causes no other inspect, whether it comes
// before or after the request.
func TestEventsOfOwnRequestsCostNoInspects(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Millisecond} {
		t.Run(lag.String(), func(t *testing.T) { eventsOfOwnRequests(t, lag) })
	}
}

func eventsOfOwnRequests(t *testing.T, lag time.Duration) {
	onNode(t, dockertest.Options{EventLag: lag}, func(n *node) {
		pod := n.startPod("web")
		n.sync()
		before := n.engine.Calls("InspectContainer")
		id := n.createContainer(pod, "web", "app")
		time.Sleep(time.Microsecond) // the inspect must begin after the time of the event
		_, err := n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		time.Sleep(lag)
		caughtUp()
		n.start(id)
		time.Sleep(time.Microsecond)
		_, err = n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		time.Sleep(lag)
		caughtUp()
		testutil.Equal(n, n.engine.Calls("InspectContainer")-before, 2, "inspects")
		n.must(n.engine.Exit(id, 1)) // not caused by a service
		time.Sleep(lag)
		caughtUp()
		n.wantContainer(id, exited)
		testutil.Equal(n, n.engine.Calls("InspectContainer")-before, 3, "inspects after the exit")
	})
}

// A refresh whose answer is older than a merged one succeeds without another inspect.
func TestConcurrentRefreshesDoNotOvertakeEachOther(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		before := n.engine.Calls("InspectContainer")
		arrived, release := n.engine.holdInspect(id)
		first := n.refreshing(id)
		<-arrived
		n.engine.onInspect(nil)
		_, err := n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		release()
		n.must(<-first)
		testutil.Equal(n, n.engine.Calls("InspectContainer")-before, 2, "inspects")
	})
}
