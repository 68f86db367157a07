package podworkers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// steps is a PodSyncer that records its calls and runs a test's functions.
type steps struct {
	mu         sync.Mutex
	calls      []string
	sync       func(ctx context.Context, pod *v1.Pod) (bool, time.Duration, error)
	terminate  func(ctx context.Context, pod *v1.Pod, t Termination) error
	terminated error
}

func (s *steps) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *steps) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *steps) SyncPod(ctx context.Context, pod *v1.Pod) (bool, time.Duration, error) {
	s.note("sync %s %s", pod.UID, pod.Labels["v"])
	if s.sync != nil {
		return s.sync(ctx, pod)
	}
	return false, 0, nil
}

func (s *steps) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error {
	s.note("terminate %s", pod.UID)
	if s.terminate != nil {
		return s.terminate(ctx, pod, t)
	}
	return nil
}

func (s *steps) Forget(types.UID) {}

func (s *steps) SyncTerminatedPod(_ context.Context, pod *v1.Pod) error {
	s.note("terminated %s", pod.UID)
	return s.terminated
}

// failing is a sync that fails.
func failing(context.Context, *v1.Pod) (bool, time.Duration, error) {
	return false, 0, errors.New("no luck")
}

// untilCancelled is a sync that waits for the end of its context.
func untilCancelled(ctx context.Context, _ *v1.Pod) (bool, time.Duration, error) {
	<-ctx.Done()
	return false, 0, ctx.Err()
}

// holdTermination makes each termination wait until the returned channel is closed.
func (s *steps) holdTermination() chan struct{} {
	release := make(chan struct{})
	s.terminate = func(context.Context, *v1.Pod, Termination) error {
		<-release
		return nil
	}
	return release
}

func pod(uid, name, version string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default",
			Labels: map[string]string{"v": version}}}
}

// inBubble runs a test with workers in fake time. Tick lets time pass and wakes due pods, as the sync loop does.
func inBubble(t *testing.T, opts Options, test func(s *steps, w *Workers, tick func(time.Duration))) {
	t.Helper()
	s := &steps{}
	synctest.Test(t, func(t *testing.T) {
		opts.PodSyncer = s
		w := New(t.Context(), opts)
		t.Cleanup(w.Wait)
		tick := func(d time.Duration) {
			synctest.Wait()
			for range d / time.Second {
				time.Sleep(time.Second)
				w.WakeDue(time.Now())
				synctest.Wait()
			}
		}
		test(s, w, tick)
	})
}

func want(t *testing.T, s *steps, calls ...string) {
	t.Helper()
	got := s.take()
	testutil.Assert(t, slices.Equal(got, calls), "calls %q, want %q", got, calls)
}

func TestLatestUpdateWins(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := make(chan struct{})
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) {
			<-release
			return false, 0, nil
		}
		w.Update(pod("a", "a", "1"))
		tick(0)
		for _, version := range []string{"2", "3", "4"} {
			w.Update(pod("a", "a", version))
		}
		close(release)
		tick(0)
		want(t, s, "sync a 1", "sync a 4")
	})
}

func TestResyncRetryAndAgain(t *testing.T) {
	opts := Options{Resync: time.Minute, Retry: 10 * time.Second}
	inBubble(t, opts, func(s *steps, w *Workers, tick func(time.Duration)) {
		w.Update(pod("a", "a", ""))
		tick(59 * time.Second)
		want(t, s, "sync a ")
		tick(32 * time.Second) // due after 60 to 90 seconds
		want(t, s, "sync a ")
		s.sync = failing
		w.Wake("a")
		tick(2 * time.Second) // at once, after half a second and after one more
		want(t, s, "sync a ", "sync a ", "sync a ")
		tick(14 * time.Second) // after two, four and eight more
		want(t, s, "sync a ", "sync a ", "sync a ")
		tick(9 * time.Second)
		want(t, s)
		tick(time.Second) // after ten, from now on
		want(t, s, "sync a ")
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) { return false, 3 * time.Second, nil }
		w.Wake("a")
		tick(7 * time.Second)
		want(t, s, "sync a ", "sync a ", "sync a ")
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) { return false, 61 * time.Second, nil }
		w.Wake("a")
		tick(62 * time.Second) // the jitter of Resync does not delay the time that SyncPod returned
		want(t, s, "sync a ", "sync a ")
		s.sync = failing
		w.Wake("a")
		tick(time.Second) // a success resets the pause
		want(t, s, "sync a ", "sync a ")
	})
}

// TestPauseOfTheNextState: a step that takes the pod to its next state succeeds, so it resets the pause, too.
func TestPauseOfTheNextState(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		failed := errors.New("no luck")
		s.sync = failing
		w.Update(pod("a", "a", ""))
		tick(30 * time.Second) // now the pause is ten seconds
		s.take()
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) { return true, 0, nil }
		s.terminate = func(context.Context, *v1.Pod, Termination) error { return failed }
		w.Wake("a")
		tick(time.Second)
		want(t, s, "sync a ", "terminate a", "terminate a")
		tick(30 * time.Second)
		s.take()
		s.terminate, s.terminated = nil, failed
		w.Wake("a")
		tick(time.Second)
		want(t, s, "terminate a", "terminated a", "terminated a")
	})
}

// TestAgainAfterAnError: an error does not delay a step that is due earlier, such as for the deadline of a pod.
func TestAgainAfterAnError(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.sync = failing
		w.Update(pod("a", "a", ""))
		tick(30 * time.Second) // now the pause is ten seconds
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) {
			return false, 3 * time.Second, errors.New("no luck")
		}
		w.Wake("a")
		tick(2 * time.Second)
		s.take()
		tick(time.Second)
		want(t, s, "sync a ")
	})
}

func TestTerminationInOrder(t *testing.T) {
	inBubble(t, Options{Retry: time.Second}, func(s *steps, w *Workers, tick func(time.Duration)) {
		w.Update(pod("a", "a", ""))
		tick(0)
		fail := true
		s.terminate = func(context.Context, *v1.Pod, Termination) error {
			if fail {
				fail = false
				return errors.New("still running")
			}
			return nil
		}
		w.Terminate(pod("a", "a", ""), Termination{Gone: true})
		tick(3 * time.Second)
		want(t, s, "sync a ", "terminate a", "terminate a", "terminated a")
		testutil.Assert(t, len(w.Pods()) == 0, "a pod that no source names is not forgotten")
	})
}

// TestEndByTheNode: End ends a pod although its source wants it. The pod keeps its object and does not run again.
func TestEndByTheNode(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		why := &model.Failure{Reason: "Evicted"}
		testutil.Assert(t, !w.End("a", Termination{Failure: why}), "an unknown pod was ended")
		w.Update(pod("a", "a", "1"))
		tick(0)
		var got []Termination
		s.terminate = func(_ context.Context, pod *v1.Pod, t Termination) error {
			got = append(got, t)
			if pod.Labels["v"] != "1" {
				return errors.New("another object")
			}
			return nil
		}
		testutil.Assert(t, w.End("a", Termination{Grace: new(int64(1)), Failure: why}), "the pod was not ended")
		tick(2 * time.Second)
		want(t, s, "sync a 1", "terminate a", "terminated a")
		testutil.Assert(t, len(got) == 1 && got[0].Failure == why && *got[0].Grace == 1 && !got[0].Gone,
			"ended by %+v", got)
		w.Update(pod("a", "a", "2"))
		tick(2 * time.Minute)
		want(t, s)
		testutil.Assert(t, w.Finished("a") && !w.End("a", Termination{}), "a pod that has ended is ended again")
	})
}

// TestEndOfAPodThatEnds: End gives an ending pod a shorter grace period and a reason.
func TestEndOfAPodThatEnds(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		var got []Termination
		s.terminate = func(ctx context.Context, _ *v1.Pod, t Termination) error {
			if got = append(got, t); t.Failure == nil {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		w.Update(pod("a", "a", "1"))
		tick(0)
		w.Terminate(pod("a", "a", "1"), Termination{Grace: new(int64(600))})
		tick(0)
		w.End("a", Termination{Grace: new(int64(5)), Failure: &model.Failure{Reason: "Terminated"}})
		tick(0)
		testutil.Assert(t, len(got) == 2 && *got[1].Grace == 5 && got[1].Failure.Reason == "Terminated" &&
			w.Finished("a"), "ended by %+v", got)
	})
}

func TestTerminationCancelsSync(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.sync = untilCancelled
		w.Update(pod("a", "a", ""))
		tick(0)
		w.Terminate(pod("a", "a", ""), Termination{})
		tick(0)
		want(t, s, "sync a ", "terminate a", "terminated a")
		testutil.Equal(t, w.Pods()["a"].State, Finished, "state")
		w.Update(pod("a", "a", "2"))
		tick(2 * time.Minute)
		want(t, s)
	})
}

func TestRefresh(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		w.Refresh(pod("unknown", "unknown", "1"))
		w.Update(pod("a", "a", "1"))
		tick(0)
		w.Refresh(pod("a", "a", "2"))
		tick(0)
		want(t, s, "sync a 1")
		w.Wake("a")
		tick(0)
		want(t, s, "sync a 2")
	})
}

// TestRemovalWithoutGraceInterrupts: a removal without grace cancels a graceful termination, and the pod is forgotten.
func TestRemovalWithoutGraceInterrupts(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		var graces []int64
		s.terminate = func(ctx context.Context, _ *v1.Pod, t Termination) error {
			graces = append(graces, *t.Grace)
			if *t.Grace > 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		w.Update(pod("a", "a", ""))
		tick(0)
		w.Terminate(pod("a", "a", ""), Termination{Grace: new(int64(100))})
		tick(0)
		w.Terminate(pod("a", "a", ""), Termination{Grace: new(int64(0)), Gone: true})
		tick(0)
		want(t, s, "sync a ", "terminate a", "terminate a", "terminated a")
		testutil.Assert(t, slices.Equal(graces, []int64{100, 0}) && len(w.Pods()) == 0,
			"graces %v, known %v", graces, w.Pods())
	})
}

// TestFinished: Ended is called once for a finished pod. The pod stays finished until its source no longer names it.
func TestFinished(t *testing.T) {
	var w *Workers
	var ended []string
	opts := Options{Ended: func(pod *v1.Pod) {
		ended = append(ended, fmt.Sprintf("%s %v %v", pod.UID, pod.DeletionTimestamp != nil, w.Finished(pod.UID)))
	}}
	inBubble(t, opts, func(s *steps, workers *Workers, tick func(time.Duration)) {
		w = workers
		release := s.holdTermination()
		w.Update(pod("a", "a", ""))
		tick(0)
		deleted := pod("a", "a", "")
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.Terminate(deleted, Termination{})
		tick(0)
		testutil.Assert(t, !w.Finished("a") && !w.Finished("unknown"), "a pod finished before its end")
		close(release)
		tick(0)
		w.Update(deleted) // the server sends another change
		tick(2 * time.Minute)
		want(t, s, "sync a ", "terminate a", "terminated a")
		testutil.Assert(t, w.Finished("a") && slices.Equal(ended, []string{"a true true"}),
			"finished %v, ended %q", w.Finished("a"), ended)
		w.Terminate(deleted, Termination{Gone: true})
		tick(0)
		testutil.Assert(t, !w.Finished("a") && len(ended) == 1,
			"after its source dropped it: finished %v, ended %q", w.Finished("a"), ended)
	})
}

// TestHolders: an ending pod holds its name. A pod that waits for the name does not hold it.
func TestHolders(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := s.holdTermination()
		holders := func() (uids []string) {
			for _, pod := range w.Holders() {
				uids = append(uids, string(pod.UID))
			}
			slices.Sort(uids)
			return uids
		}
		w.Update(pod("old", "name", ""))
		w.Update(pod("other", "other", ""))
		tick(0)
		w.Terminate(pod("old", "name", ""), Termination{Gone: true})
		for range 3 {
			w.Update(pod("new", "name", ""))
			tick(0)
			got := holders()
			testutil.Assert(t, slices.Equal(got, []string{"old", "other"}), "holders %q", got)
		}
		close(release)
		tick(0)
		got := holders()
		testutil.Assert(t, slices.Equal(got, []string{"new", "other"}), "holders %q after the end", got)
	})
}

// TestFinishedPodHoldsNoName: a finished pod that its source still names leaves its name to a later pod.
func TestFinishedPodHoldsNoName(t *testing.T) {
	held := false
	opts := Options{NameInUse: func(string, types.UID) bool { return held }}
	inBubble(t, opts, func(_ *steps, w *Workers, tick func(time.Duration)) {
		wantHolder := func(uid types.UID) {
			t.Helper()
			for range 20 { // the order of a map is random
				got := w.Holders()
				testutil.Require(t, len(got) == 1 && got[0].UID == uid, "the holders are %+v, want %s", got, uid)
			}
		}
		w.Update(pod("old", "name", ""))
		w.Terminate(pod("old", "name", ""), Termination{})
		tick(0)
		wantHolder("old")
		held = true
		w.Update(pod("new", "name", ""))
		tick(0)
		wantHolder("new")
		held = false
		tick(2 * time.Second)
		testutil.Equal(t, w.Pods()["new"].State, Syncing, "state of the new pod")
		wantHolder("new")
	})
}

func TestCompletedPodIsNotRunAgain(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.sync = func(context.Context, *v1.Pod) (bool, time.Duration, error) { return true, 0, nil }
		w.Update(pod("a", "a", ""))
		tick(2 * time.Minute)
		want(t, s, "sync a ", "terminate a", "terminated a")
		w.Wake("a")
		w.Update(pod("a", "a", "2"))
		tick(2 * time.Minute)
		want(t, s)
		w.Terminate(pod("a", "a", ""), Termination{Gone: true})
		testutil.Assert(t, len(w.Pods()) == 0, "not forgotten")
	})
}

func TestEndLeavesNothingBehind(t *testing.T) {
	// The bubble fails the test if a goroutine outlives it.
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.sync = untilCancelled
		for i := range 5 {
			w.Update(pod(fmt.Sprint(i), fmt.Sprint(i), ""))
		}
		tick(0)
	})
}

// TestNameIsHeld: pods with the same full name run one after the other.
func TestNameIsHeld(t *testing.T) {
	held := true
	opts := Options{NameInUse: func(string, types.UID) bool { return held }}
	inBubble(t, opts, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := s.holdTermination()
		w.Update(pod("old", "name", ""))
		tick(2 * time.Second)
		want(t, s)
		testutil.Equal(t, w.Pods()["old"].State, Waiting, "state")
		held = false
		tick(2 * time.Second)
		want(t, s, "sync old ")
		w.Terminate(pod("old", "name", ""), Termination{Gone: true})
		w.Update(pod("new", "name", ""))
		w.Update(pod("other", "other", ""))
		tick(5 * time.Second)
		got := s.take()
		testutil.Assert(t, slices.Contains(got, "sync other ") && !slices.Contains(got, "sync new "), "calls %q", got)
		close(release)
		tick(0)
		want(t, s, "terminated old", "sync new ")
	})
}
