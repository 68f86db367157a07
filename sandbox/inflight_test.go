package sandbox

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// settle waits until background work has finished.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// slowAdd makes CNI ADD wait until release is called or its context ends.
func (n *node) slowAdd() (release func()) {
	released := make(chan struct{})
	n.network.setAdd(func(ctx context.Context, _ cni.Pod) error {
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return func() { close(released) }
}

// runImpatient is Run by a caller that waits only a second.
func (n *node) runImpatient() (string, error) {
	ctx, cancel := context.WithTimeout(n.Context(), time.Second)
	defer cancel()
	return n.Run(ctx, podConfig("web"), "")
}

func TestRepeatedRequestGetsThePodThatItsCallerDidNotWaitFor(t *testing.T) {
	onNodes(t, withCNI, map[string]bool{"while it is being made": false, "when it is finished": true},
		func(n *node, finished bool) {
			release := n.slowAdd()
			if _, err := n.runImpatient(); !errors.Is(err, context.DeadlineExceeded) {
				n.Fatalf("Run returned %v, want the end of its context", err)
			}
			if _, err := n.runImpatient(); !errors.Is(err, context.DeadlineExceeded) {
				n.Fatalf("the second Run returned %v, want the end of its context", err)
			}
			different := podConfig("web")
			different.Hostname = "another"
			if _, err := n.Run(n.Context(), different, ""); !errdefs.IsAlreadyExists(err) {
				n.Errorf("another configuration returned %v, want AlreadyExists", err)
			}
			_, err := n.Run(n.Context(), podConfig("web"), "runc")
			testutil.Assert(n, errdefs.IsAlreadyExists(err), "another handler returned %v, want AlreadyExists", err)
			if finished {
				release()
				settle()
				n.wantState(n.cache.Snapshot().Pods()[0].ID, ready)
				if _, err := n.Run(n.Context(), different, ""); !errdefs.IsAlreadyExists(err) {
					n.Errorf("another configuration returned %v, want AlreadyExists", err)
				}
			} else {
				go func() {
					time.Sleep(time.Second)
					release()
				}()
			}
			id := n.run("web")
			testutil.Equal(n, n.engine.Calls("CreateContainer"), 1, "containers were created")
			// Once delivered, it is a pod like any other.
			if _, err := n.Run(n.Context(), podConfig("web"), ""); !errdefs.IsAlreadyExists(err) {
				n.Errorf("the request after that returned %v, want AlreadyExists", err)
			}
			n.removeLast(id)
		})
}

func TestSameRequestsAtOnceMakeOnePod(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		var group sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]int{}
		release := n.slowAdd()
		for range 10 {
			group.Go(func() {
				id, err := n.Run(n.Context(), podConfig("web"), "")
				testutil.Check(n, err)
				mu.Lock()
				defer mu.Unlock()
				ids[id]++
			})
		}
		synctest.Wait()
		release()
		group.Wait()
		testutil.Assert(n, len(ids) == 1 && n.engine.Calls("CreateContainer") == 1, "ten requests made %v", ids)
	})
}

func TestFailureIsNotRepeatedToTheNextRequest(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.setAdd(func(context.Context, cni.Pod) error {
			time.Sleep(2 * time.Second)
			return errTest
		})
		_, err := n.runImpatient()
		testutil.Require(n, errors.Is(err, context.DeadlineExceeded), "Run returned %v", err)
		settle()
		n.network.failAdd(nil)
		n.must(n.Remove(n.Context(), n.run("web")))
		n.wantNothing()
	})
}

// undelivered makes a pod whose client goes away before it gets the id.
func (n *node) undelivered() (id string) {
	n.Helper()
	release := n.slowAdd()
	_, err := n.runImpatient()
	testutil.Require(n, err != nil, "Run did not wait for CNI ADD")
	release()
	settle()
	return n.cache.Snapshot().Pods()[0].ID
}

// A finished pod that no client asked for again is stopped and removed like any other. A late request does not get it.
func TestUndeliveredPodIsForgottenWhenItIsStopped(t *testing.T) {
	onEachKind(t, func(n *node) {
		first := n.undelivered()
		n.must(n.Stop(n.Context(), first))
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "a stopped pod was given out: %s, %v", id, err)
		n.removeLast(first)
		testutil.Assert(n, n.run("web") != first, "a removed pod was given out")
	})
}

// A pod that ends before its result is delivered is not given out.
func TestUndeliveredPodThatHasEndedIsNotGivenOut(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		first := n.undelivered()
		n.must(n.engine.StopContainer(n.Context(), first, 0)) // by hand
		settle()
		n.wantState(first, notReady)
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "an ended pod was given out: %s, %v", id, err)
		n.removeLast(first)
	})
}

// Another client removes the undelivered pod without a Stop. The next Run makes a new pod.
func TestUndeliveredPodThatIsGoneIsMadeAgain(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		first := n.undelivered()
		n.must(n.engine.RemoveContainer(n.Context(), first))
		n.must(n.store.Delete(t.Context(), first)) // by hand
		n.cache.RemovePod(first)
		testutil.Assert(n, n.run("web") != first, "a removed pod was given out")
	})
}

// The set-up itself is bounded, whether or not a caller waits.
func TestSetUpEndsAfterItsTime(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.slowAdd()
		began := time.Now()
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errors.Is(err, context.DeadlineExceeded), "Run returned %v", err)
		took := time.Since(began)
		testutil.Assert(n, took >= 4*time.Minute && took <= 5*time.Minute, "the set-up took %v", took)
		n.network.failAdd(nil)
		n.wantNothing()
	})
}

func TestCloseRollsBackWhatIsUnderWay(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.slowAdd()
		result := testutil.Try(func() (string, error) { return n.Run(n.Context(), podConfig("web"), "") })
		synctest.Wait()
		n.Close()
		testutil.FailsWith(n, <-result, context.Canceled, "Run")
		n.wantNothing()
	})
}

func TestEngineAwayIsUnavailable(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		id := n.run("other")
		n.engine.Away()
		settle()
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsUnavailable(err), "Run returned %v, want Unavailable", err)
		for name, call := range map[string]func(context.Context, string) error{"Stop": n.Stop, "Remove": n.Remove} {
			testutil.Fails(n, call(n.Context(), id), errdefs.IsUnavailable, "%s", name)
		}
		n.engine.Back()
		settle()
		n.removeLast(id)
	})
}

// Run fails while the cache does not follow the engine, because it cannot check whether the pod exists.
func TestStaleCacheIsUnavailable(t *testing.T) {
	onEachKind(t, func(n *node) {
		repair := n.engine.Inject("ListContainers", dockertest.Fault{Err: errTest})
		time.Sleep(6 * time.Minute) // until the next relist
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsUnavailable(err), "Run returned %v, want Unavailable", err)
		testutil.Assert(n, n.engine.Calls("CreateContainer") == 0, "a container was created")
		repair()
		settle()
		n.run("web")
	})
}

// A second Run with the same metadata fails with AlreadyExists, whatever the state of the first pod.
func TestExistingPodIsNotMadeAgain(t *testing.T) {
	onNodes(t, withCNI, map[string]func(*node, string){
		"ready":   func(*node, string) {},
		"stopped": func(n *node, id string) { n.must(n.Stop(n.Context(), id)) },
		"its container was removed": func(n *node, id string) {
			n.must(n.engine.RemoveContainer(n.Context(), id))
			settle()
		},
		"found after a restart": func(n *node, _ string) { n.restart() },
		"known from its checkpoint alone": func(n *node, id string) {
			n.must(n.engine.RemoveContainer(n.Context(), id))
			n.restart()
		},
	}, func(n *node, prepare func(*node, string)) {
		id := n.run("web")
		prepare(n, id)
		again, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsAlreadyExists(err), "Run returned %s, %v, want AlreadyExists", again, err)
		next := podConfig("web")
		next.Metadata.Attempt = 1
		n.runConfig(next)
	})
}

func TestMissingSandboxImageIsLoadedAgain(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.must(n.engine.RemoveImage(n.Context(), pauseImage))
		n.run("web")
		created := n.engine.Calls("CreateContainer")
		testutil.Assert(n, created == 2, "%d creates, want the first without the image and the second with it", created)
	})
}

func TestSandboxImageThatCannotBeLoaded(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.must(n.engine.RemoveImage(n.Context(), pauseImage))
		n.engine.Inject("TagImage", dockertest.Fault{Err: errTest})
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errors.Is(err, errTest), "Run returned %v", err)
		n.wantNothing()
	})
}
