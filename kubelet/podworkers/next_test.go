package podworkers

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// endingPod runs the pod a, which no source names any more. It ends when the returned channel is closed.
func endingPod(s *steps, w *Workers, tick func(time.Duration)) (release chan struct{}) {
	release = s.holdTermination()
	w.Update(pod("a", "a", "1"))
	tick(0)
	w.Terminate(pod("a", "a", "1"), Termination{Gone: true})
	tick(0)
	return release
}

// TestDeletedBeforeItRunsAgain: a pod that was named again while it ended, and is deleted before it has ended, does not
// run again.
func TestDeletedBeforeItRunsAgain(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := endingPod(s, w, tick)
		w.Update(pod("a", "a", "2"))
		w.Terminate(pod("a", "a", "3"), Termination{})
		close(release)
		tick(0)
		want(t, s, "sync a 1", "terminate a", "terminated a", "terminate a", "terminated a")
	})
}

// TestDeletedWhileLeftoversAreRemoved: the end of a deleted pod has all its steps, even if leftovers of an earlier pod
// with its UID are being removed.
func TestDeletedWhileLeftoversAreRemoved(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		s.terminated = errors.New("its volumes are busy")
		w.Clear("a")
		tick(0)
		s.terminated = nil
		w.Terminate(pod("a", "a", "1"), Termination{})
		tick(time.Second)
		want(t, s, "terminated a", "terminated a", "terminate a", "terminated a")
	})
}

// TestRefreshOfTheNextPod: a pod that was named again runs with its latest object.
func TestRefreshOfTheNextPod(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := endingPod(s, w, tick)
		w.Refresh(pod("a", "a", "2"))
		w.Update(pod("a", "a", "3"))
		w.Refresh(pod("a", "a", "4"))
		close(release)
		tick(0)
		want(t, s, "sync a 1", "terminate a", "terminated a", "sync a 4")
	})
}

// TestNamedAgainWhileEnding: a pod runs again if its source names it again before it has ended.
func TestNamedAgainWhileEnding(t *testing.T) {
	var hooks []string
	hook := func(name string) func(*v1.Pod) {
		return func(pod *v1.Pod) { hooks = append(hooks, name+" "+pod.Labels["v"]) }
	}
	opts := Options{Ended: hook("ended"), Again: hook("again")}
	inBubble(t, opts, func(s *steps, w *Workers, tick func(time.Duration)) {
		release := endingPod(s, w, tick)
		w.Update(pod("a", "a", "2"))
		close(release)
		tick(0)
		want(t, s, "sync a 1", "terminate a", "terminated a", "sync a 2")
		testutil.Assert(t, slices.Equal(hooks, []string{"ended 1", "again 2"}), "hooks %v", hooks)
	})
}

// TestActiveNextPod: a pod that waits to run again uses resources. Its ending predecessor, which no source names, uses
// none.
func TestActiveNextPod(t *testing.T) {
	inBubble(t, Options{}, func(s *steps, w *Workers, tick func(time.Duration)) {
		active := func() (versions []string) {
			for _, pod := range w.Active() {
				versions = append(versions, pod.Labels["v"])
			}
			return versions
		}
		release := endingPod(s, w, tick)
		testutil.Equal(t, len(active()), 0, "active pods while no source names the pod")
		w.Update(pod("a", "a", "2"))
		got := active()
		testutil.Assert(t, slices.Equal(got, []string{"2"}), "active versions %q while the pod waits", got)
		close(release)
		tick(0)
		got = active()
		testutil.Assert(t, slices.Equal(got, []string{"2"}), "active versions %q when it runs again", got)
	})
}

// TestNamedAgainAsItEnds: a pod runs even if it is added while an ended pod with the same UID is being dropped.
func TestNamedAgainAsItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{}
		var w *Workers
		again := true
		w = New(t.Context(), Options{PodSyncer: s, Ended: func(pod *v1.Pod) {
			if again {
				again = false
				w.Terminate(pod, Termination{Gone: true})
				w.Update(pod)
			}
		}})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}}
		w.Update(pod)
		synctest.Wait()
		w.Terminate(pod, Termination{})
		synctest.Wait()
		testutil.Equal(t, w.Pods()["1"].State, Syncing, "the pod that was named again")
	})
}
