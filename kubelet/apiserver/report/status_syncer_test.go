package report

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	getA    = "GET pods/a"
	patchA  = "PATCH pods/a/status"
	deleteA = "DELETE pods/a"
)

func TestStatusIsSentWhenItChanges(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.set(a, v1.PodRunning)
		b.wantCalls(getA, patchA)
		b.wantPhase("a", v1.PodRunning)
		b.set(a, v1.PodRunning) // the same
		b.wantCalls()
		a.ResourceVersion, a.Labels = "1000", map[string]string{"edited": "yes"} // outside of the status
		b.set(a, v1.PodRunning)
		b.wantCalls()
		got := b.server.Pod("ns", "a")
		testutil.Assert(t, got.Labels == nil && got.Status.ObservedGeneration == 1, "the server's pod: %+v", got)
		b.saw("a")
		time.Sleep(time.Minute)
		b.wantCalls()
	})
}

func TestNewestStatusWins(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.server.SetFail(func(call string) error {
			if call == patchA {
				return errors.New("etcd is slow")
			}
			return nil
		})
		b.set(a, v1.PodRunning)
		b.set(a, v1.PodRunning, func(s *v1.PodStatus) { s.PodIP = "10.0.0.2" })
		b.set(a, v1.PodSucceeded)
		b.server.SetFail(nil)
		b.server.Calls()
		time.Sleep(10 * time.Second)
		b.wantCalls(getA, patchA)
		b.wantPhase("a", v1.PodSucceeded)
	})
}

// TestServerAway: failed requests are retried with growing pauses. Missed changes are sent soon after the server is
// back.
func TestServerAway(t *testing.T) {
	inStatusBubble(t, func(b *statusBench) {
		pods := map[string]*v1.Pod{}
		for i := range 20 {
			name := fmt.Sprint("p", i)
			pods[name] = b.pod(name)
			b.set(pods[name], v1.PodPending)
		}
		b.server.Calls()
		b.server.SetFail(func(string) error { return errors.New("not now") })
		for _, pod := range pods {
			b.set(pod, v1.PodRunning)
		}
		time.Sleep(time.Minute)
		calls := len(b.server.Calls())
		testutil.Assert(t, calls >= 20*6 && calls <= 20*12, "%d requests in a minute to a server that fails", calls)
		b.server.SetFail(nil)
		time.Sleep(11 * time.Second)
		for name := range pods {
			b.wantPhase(name, v1.PodRunning)
		}
	})
}

func TestConditionsOfOthersStay(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.set(a, v1.PodRunning)
		b.server.Edit("ns", "a", func(pod *v1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions,
				v1.PodCondition{Type: "example.org/gate", Status: v1.ConditionTrue})
			pod.Status.NominatedNodeName = "other"
			pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "claim"}}
		})
		b.set(a, v1.PodRunning, func(s *v1.PodStatus) { s.PodIP = "10.0.0.2" })
		got := b.server.Pod("ns", "a").Status
		testutil.Assert(t, model.FindCondition(got.Conditions, "example.org/gate") != nil &&
			got.NominatedNodeName == "other" && len(got.ResourceClaimStatuses) == 1, "status %+v", got)
		scheduled := model.FindCondition(got.Conditions, v1.PodScheduled)
		testutil.Assert(t, scheduled.Reason == "scheduler" && scheduled.LastTransitionTime.Unix() == 1000,
			"scheduled %+v", scheduled)
	})
}

// TestConditionAddedMeanwhile: a condition that another client adds between the syncer's get and its patch stays.
func TestConditionAddedMeanwhile(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		stale := b.server.Pod("ns", "a")
		b.server.Edit("ns", "a", func(pod *v1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions,
				v1.PodCondition{Type: "example.org/gate", Status: v1.ConditionTrue})
		})
		a.Status = v1.PodStatus{Phase: v1.PodRunning}
		_, err := b.statuses.patch(b.Context(), stale, merged(stale, a))
		testutil.Must(t, err)
		b.wantPhase("a", v1.PodRunning)
		got := b.server.Pod("ns", "a").Status.Conditions
		testutil.Assert(t, model.FindCondition(got, "example.org/gate") != nil, "conditions %+v", got)
	})
}

func TestForeignChangeIsSetRight(t *testing.T) {
	inStatusBubble(t, func(b *statusBench) {
		b.set(b.pod("a"), v1.PodRunning)
		b.server.Edit("ns", "a", func(pod *v1.Pod) { pod.Status.Phase = v1.PodPending })
		b.saw("a")
		b.server.Calls()
		time.Sleep(11 * time.Second)
		b.wantCalls(getA, patchA)
		b.wantPhase("a", v1.PodRunning)
		b.saw("a")
		time.Sleep(time.Minute)
		b.wantCalls()
	})
}

// TestTerminalPhaseStays: a terminal phase that another client set stays, and the kubelet ends the pod.
func TestTerminalPhaseStays(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.set(a, v1.PodRunning)
		b.server.Edit("ns", "a", func(pod *v1.Pod) { pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "Evicted" })
		b.saw("a")
		time.Sleep(time.Minute)
		b.wantPhase("a", v1.PodFailed)
		testutil.Equal(t, b.server.Pod("ns", "a").Status.Reason, "Evicted", "its reason became")
	})
}

// TestHeldStatusIsNotSent: a held status is sent after it is set.
func TestHeldStatusIsNotSent(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.saw("a")
		held := v1.PodStatus{Phase: v1.PodRunning}
		b.store.Hold(a, held)
		time.Sleep(time.Minute)
		b.statuses.Wake(a.UID)
		synctest.Wait()
		b.wantCalls()
		b.store.Set(a, held) // the same status, no longer held
		synctest.Wait()
		b.wantCalls(getA, patchA)
		b.wantPhase("a", v1.PodRunning)
	})
}

// TestFieldThatTheServerDrops: a field that the server drops is sent once.
func TestFieldThatTheServerDrops(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.set(a, v1.PodRunning)
		b.server.Edit("ns", "a", func(pod *v1.Pod) { pod.Status.PodIP = "" })
		b.saw("a")
		b.statuses.note(a.UID, sentStatus{pod: b.store.Get(a.UID), answer: b.server.Pod("ns", "a").Status})
		b.server.Calls()
		time.Sleep(time.Minute)
		b.wantCalls()
	})
}

func TestPodIsForgotten(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(b *statusBench)
	}{
		{"removed by force", func(b *statusBench) { b.server.Remove("ns", "a") }},
		{"another pod has its name", func(b *statusBench) {
			b.server.Remove("ns", "a")
			b.pod("a")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withPod(t, func(b *statusBench, a *v1.Pod) {
				b.set(a, v1.PodRunning)
				b.saw("a")
				test.lose(b)
				b.server.Calls()
				b.set(a, v1.PodFailed)
				b.wantCalls(getA)
				b.set(a, v1.PodSucceeded)
				b.finish("another")
				time.Sleep(time.Minute)
				b.wantCalls()
				b.store.Forget(a.UID)
				time.Sleep(11 * time.Second)
				synctest.Wait()
				testutil.Assert(t, len(b.statuses.sent)+len(b.statuses.observed) == 0,
					"still kept: %v %v", b.statuses.sent, b.statuses.observed)
			})
		})
	}
}

// TestPodGoesMeanwhile: a pod that is removed between get and patch is forgotten.
func TestPodGoesMeanwhile(t *testing.T) {
	inStatusBubble(t, func(b *statusBench) {
		b.server.SetFail(func(call string) error {
			if call == patchA {
				return apierrors.NewNotFound(v1.Resource("pods"), "a")
			}
			return nil
		})
		b.set(b.pod("a"), v1.PodRunning)
		time.Sleep(time.Minute)
		b.wantCalls(getA, patchA)
	})
}

// TestUIDIsAPrecondition: nothing is patched if another pod takes the name between get and patch.
func TestUIDIsAPrecondition(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.server.Remove("ns", "a")
		b.pod("a")
		_, err := b.statuses.patch(b.Context(), a, v1.PodStatus{Phase: v1.PodFailed})
		testutil.Assert(t, err != nil, "another pod's status was patched")
		testutil.Check(t, b.statuses.remove(b.Context(), a))
		b.wantPhase("a", v1.PodPending)
	})
}

func TestFinalisation(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		b.set(a, v1.PodRunning)
		testutil.Must(t, b.server.Core().Pods("ns").Delete(b.Context(), "a", metav1.DeleteOptions{}))
		a = b.server.Pod("ns", "a")
		b.server.Calls()
		b.set(a, v1.PodRunning)
		b.wantCalls(getA, patchA) // its generation changed
		b.set(a, v1.PodSucceeded)
		b.wantCalls(getA, patchA)
		b.wantPhase("a", v1.PodSucceeded)
		b.finish(a.UID)
		b.wantCalls(getA, deleteA)
		testutil.Assert(t, b.server.Pod("ns", "a") == nil, "the pod is not removed")
		b.set(a, v1.PodFailed)
		time.Sleep(time.Minute)
		b.wantCalls()
	})
}

// TestFinalisationIsTriedAgain: finalisation is retried without a call of Wake.
func TestFinalisationIsTriedAgain(t *testing.T) {
	withPod(t, func(b *statusBench, a *v1.Pod) {
		testutil.Must(t, b.server.Core().Pods("ns").Delete(b.Context(), "a", metav1.DeleteOptions{}))
		b.finished[a.UID] = true
		b.server.SetFail(func(call string) error {
			if strings.HasPrefix(call, "DELETE") {
				return errors.New("not now")
			}
			return nil
		})
		b.set(b.server.Pod("ns", "a"), v1.PodFailed)
		b.wantPhase("a", v1.PodFailed)
		b.server.SetFail(nil)
		time.Sleep(2 * time.Second)
		testutil.Assert(t, b.server.Pod("ns", "a") == nil, "the pod is not removed")
	})
}

func TestPodsThatAreNotDeletedYet(t *testing.T) {
	for _, test := range []struct {
		name              string
		deleted, finished bool
		phase             v1.PodPhase
	}{
		{"not deleted", false, true, v1.PodSucceeded},
		{"not finished", true, false, v1.PodSucceeded},
		{"not shown to have ended", true, true, v1.PodRunning},
	} {
		t.Run(test.name, func(t *testing.T) {
			withPod(t, func(b *statusBench, a *v1.Pod) {
				if test.deleted {
					testutil.Must(t, b.server.Core().Pods("ns").Delete(b.Context(), "a", metav1.DeleteOptions{}))
				}
				b.saw("a")
				b.set(b.server.Pod("ns", "a"), test.phase)
				if test.finished {
					b.finish(a.UID)
				}
				time.Sleep(time.Minute)
				b.wantPhase("a", test.phase)
			})
		})
	}
}

func TestStaticPodIsShownByItsMirror(t *testing.T) {
	inStatusBubble(t, func(b *statusBench) {
		pod := static("a", "hash")
		b.set(pod, v1.PodRunning)
		b.set(pod, v1.PodRunning, func(s *v1.PodStatus) { s.PodIP = "10.0.0.2" })
		time.Sleep(65 * time.Second)
		b.wantCalls() // there is no mirror
		b.mirror(pod)
		b.sawMirrors("a")
		synctest.Wait()
		b.wantCalls(getA, patchA)
		got := b.server.Pod("ns", "a").Status
		testutil.Assert(t, got.Phase == v1.PodRunning && got.PodIP == "10.0.0.2" && got.ObservedGeneration == 4 &&
			model.FindCondition(got.Conditions, v1.PodReady).ObservedGeneration == 4, "status %+v", got)
		b.sawMirrors("a")
		time.Sleep(time.Minute)
		b.wantCalls()
		b.finish(pod.UID)
		b.server.Edit("ns", "a", func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		b.sawMirrors("a")
		b.set(pod, v1.PodFailed)
		time.Sleep(time.Minute)
		b.wantPhase("a", v1.PodFailed) // and it still exists: mirror pods are not finalised
		b.server.Calls()
		b.server.Remove("ns", "a")
		b.set(pod, v1.PodSucceeded)
		b.wantCalls(getA)
		b.sawMirrors()
		b.set(pod, v1.PodFailed)
		time.Sleep(time.Minute)
		b.wantCalls()
		b.mirror(pod)
		b.sawMirrors("a")
		synctest.Wait()
		b.wantPhase("a", v1.PodFailed)
	})
}

// TestPodsWithAStaticPodsNameStay: a pod that has a static pod's name, but is not its mirror pod, is left alone.
func TestPodsWithAStaticPodsNameStay(t *testing.T) {
	inStatusBubble(t, func(b *statusBench) {
		b.pod("a")
		b.mirror(static("b", "old"))
		b.set(static("a", "hash"), v1.PodRunning)
		b.set(static("b", "new"), v1.PodRunning)
		b.sawMirrors("b")
		time.Sleep(time.Minute)
		b.wantPhase("a", v1.PodPending)
		b.wantPhase("b", "")
	})
}

// TestDisruptionTarget: other components set this condition, too. The kubelet's own is sent and replaces theirs.
func TestDisruptionTarget(t *testing.T) {
	ours := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: v1.PodReasonTerminationByKubelet, Message: "low"}
	theirs := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI"}
	for _, test := range []struct{ server, ours, want []v1.PodCondition }{
		{nil, []v1.PodCondition{ours}, []v1.PodCondition{ours}},
		{[]v1.PodCondition{theirs}, []v1.PodCondition{ours}, []v1.PodCondition{ours}},
		{[]v1.PodCondition{theirs}, nil, []v1.PodCondition{theirs}},
		{nil, []v1.PodCondition{theirs}, nil},
	} {
		got := mergedConditions(test.server, test.ours)
		testutil.Assert(t, reflect.DeepEqual(got, test.want), "server %v, ours %v: %v", test.server, test.ours, got)
	}
}

func TestMergedStatus(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	shown := &v1.Pod{Status: v1.PodStatus{
		StartTime: &metav1.Time{Time: at(5).Time}, QOSClass: v1.PodQOSBurstable,
		Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at(10)},
			{Type: v1.PodResizePending, Status: v1.ConditionTrue},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue, LastTransitionTime: at(10)},
		},
	}}
	long := strings.Repeat("ä", maxMessages)
	pod := &v1.Pod{
		Spec: v1.PodSpec{Containers: make([]v1.Container, 3)},
		Status: v1.PodStatus{
			StartTime: &metav1.Time{Time: at(7).Time},
			Conditions: []v1.PodCondition{
				{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: at(20), ObservedGeneration: 3},
				{Type: v1.ContainersReady, Status: v1.ConditionFalse,
					LastTransitionTime: metav1.NewTime(at(30).Add(time.Millisecond))},
				{Type: "example.org/gone", Status: v1.ConditionTrue},
			},
			ContainerStatuses: []v1.ContainerStatus{
				{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: "x" + long}}}},
		},
	}
	got := merged(shown, pod)
	testutil.Assert(t, got.StartTime.Unix() == 5 && got.QOSClass == v1.PodQOSBurstable, "status %+v", got)
	message := got.ContainerStatuses[0].State.Terminated.Message
	testutil.Assert(t, len(message) == maxMessages/3-1 && strings.ToValidUTF8(message, "?") == message,
		"a message of %d bytes", len(message))
	var conditions []string
	for _, c := range got.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s %s %d", c.Type, c.Status, c.LastTransitionTime.UnixMilli()))
	}
	want := []string{"Ready True 10000", "ContainersReady False 30000"}
	testutil.Assert(t, fmt.Sprint(conditions) == fmt.Sprint(want), "conditions %q, want %q", conditions, want)
	testutil.Assert(t, got.Conditions[0].ObservedGeneration == 3, "%+v", got.Conditions[0])
	testutil.Assert(t, pod.Annotations == nil && !model.IsStatic(pod), "the pod of this test is static")
}
