package status

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func TestPhaseAndReady(t *testing.T) {
	const (
		alwaysRestart = v1.RestartPolicyAlways
		onFailure     = v1.RestartPolicyOnFailure
		never         = v1.RestartPolicyNever
	)
	for _, test := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    string
		seen   string
		ending bool
		want   string // the phase, then the conditions that are true
	}{
		{"nothing yet", alwaysRestart, "app:a", "", false, "Pending initialized"},
		{"created", alwaysRestart, "app:a", "a=created", false, "Pending initialized"},
		{"runs", alwaysRestart, "app:a", "a=running", false, "Running ready initialized"},
		{"one of two runs", alwaysRestart, "app:a app:b", "a=running", false, "Pending initialized"},
		{"one of two ended", alwaysRestart, "app:a app:b", "a=running b=exited:1", false, "Running initialized"},
		{"ended, always", alwaysRestart, "app:a", "a=exited:0", false, "Running initialized"},
		{"between attempts", alwaysRestart, "app:a", "a=exited:1 a=created", false, "Running initialized"},
		{"failed, on failure", onFailure, "app:a", "a=exited:1", false, "Running initialized"},
		{"ended well, on failure", onFailure, "app:a", "a=exited:0", false, "Succeeded initialized"},
		{"ended well, never", never, "app:a app:b", "a=exited:0 b=exited:0", false, "Succeeded initialized"},
		{"one failed, never", never, "app:a app:b", "a=exited:0 b=exited:9", false, "Failed initialized"},
		{"one still runs, never", never, "app:a app:b", "a=exited:9 b=running", false, "Running initialized"},
		{"ended while ending", alwaysRestart, "app:a", "a=exited:0", true, "Succeeded initialized"},
		{"killed while ending", alwaysRestart, "app:a", "a=exited:137", true, "Failed initialized"},
		{"still ending", alwaysRestart, "app:a", "a=running", true, "Running ready initialized"},
		{"never started, ending", alwaysRestart, "app:a", "", true, "Failed initialized"},
		{"one never started, ending", alwaysRestart, "app:a app:b", "a=exited:0 b=created", true, "Failed initialized"},
		{"between attempts, ending", alwaysRestart, "app:a", "a=exited:0 a=created", true, "Failed initialized"},
		{"state unknown", alwaysRestart, "app:a", "a=unknown", false, "Running initialized"},
		{"state unknown, ending", alwaysRestart, "app:a", "a=unknown", true, "Running initialized"},
		{"init never started, ending", alwaysRestart, "init:i app:a", "", true, "Failed"},
		{"init still runs, ending", alwaysRestart, "init:i app:a", "i=running", true, "Pending"},
		{"init killed while ending", alwaysRestart, "init:i app:a", "i=exited:137", true, "Failed"},
		{"init over, ending", alwaysRestart, "init:i app:a", "i=exited:0", true, "Failed initialized"},

		{"init runs", alwaysRestart, "init:i app:a", "i=running", false, "Pending"},
		{"init over", alwaysRestart, "init:i app:a", "i=exited:0", false, "Pending initialized"},
		{"init failed", alwaysRestart, "init:i app:a", "i=exited:1", false, "Pending"},
		{"init failed for good", never, "init:i app:a", "i=exited:1", false, "Failed"},
		{"init collected", alwaysRestart, "init:i app:a", "a=running", false, "Running ready initialized"},
		{"sidecar up", alwaysRestart, "side:s app:a", "s=running a=running", false, "Running ready initialized"},
		{"sidecar down", alwaysRestart, "side:s app:a", "s=exited:1 a=running", false, "Running initialized"},
		{"sidecar outlives the apps", never, "side:s app:a", "s=running a=exited:0", false, "Running initialized"},
		{"sidecar failed, apps well", never, "side:s app:a", "s=exited:137 a=exited:0", true, "Succeeded initialized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(modeltest.Pod(test.policy, test.pod), seenOf(test.seen))
			in.Ending = test.ending
			status := Generate(in)
			got := string(status.Phase)
			if model.FindCondition(status.Conditions, v1.PodReady).Status == v1.ConditionTrue {
				got += " ready"
			}
			if model.FindCondition(status.Conditions, v1.PodInitialized).Status == v1.ConditionTrue {
				got += " initialized"
			}
			testutil.Assert(t, got == test.want, "got %q, want %q", got, test.want)
		})
	}
}

// TestTerminalPhaseOfTheServer: a terminal phase from the API server is kept with its reason, even while containers
// run.
func TestTerminalPhaseOfTheServer(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	in := inputOf(pod, seenOf("a=running"))
	in.Old = Generate(in)
	pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "no room"}
	for range 2 {
		in.Old = Generate(in)
		testutil.Assert(t, in.Old.Phase == v1.PodFailed && in.Old.Reason == "Evicted" && in.Old.Message == "no room",
			"%s, %s: %s", in.Old.Phase, in.Old.Reason, in.Old.Message)
	}
}

func TestTerminalPhaseStays(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyNever, "app:a"), seenOf("a=exited:0"))
	in.Old.Phase = v1.PodFailed
	testutil.Equal(t, Generate(in).Phase, v1.PodFailed, "phase")
	in.Old = v1.PodStatus{Reason: model.ReasonDeadlineExceeded}
	in.Ending = true
	testutil.Equal(t, Generate(in).Phase, v1.PodFailed, "after the deadline")
}

// ends writes the states of all containers: w for waiting, r for running, and the exit codes.
func ends(status v1.PodStatus) string {
	var words []string
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			switch {
			case c.State.Terminated != nil:
				words = append(words, fmt.Sprint(c.Name, c.State.Terminated.ExitCode))
			case c.State.Running != nil:
				words = append(words, c.Name+"r")
			default:
				words = append(words, c.Name+"w")
			}
		}
	}
	return strings.Join(words, " ")
}

func TestLastStatusOfEndedPods(t *testing.T) {
	for _, test := range []struct {
		name, pod, seen string
		ending          bool
		want            string
	}{
		{"not ending", "app:a app:b", "a=exited:0", false, "a0 bw"},
		{"one runs", "app:a app:b", "a=running", true, "ar bw"},
		{"one unknown", "app:a app:b", "a=unknown", true, "aw bw"},
		{"one never made", "app:a app:b", "a=exited:0", true, "a0 b137"},
		{"none made", "app:a app:b", "", true, "a137 b137"},
		{"no init container made", "init:i init:j app:a", "", true, "i137 jw aw"},
		{"the second of three failed", "init:i init:j init:k app:a", "i=exited:0 j=exited:1", true, "i0 j1 kw aw"},
		{"all init containers over", "init:i app:a", "i=exited:0", true, "i0 a137"},
		{"a sidecar was started, the app was not", "side:s init:i app:a", "s=exited:0 i=exited:1", true, "s0 i1 aw"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, test.pod), seenOf(test.seen))
			in.Ending = test.ending
			testutil.Equal(t, ends(Generate(in)), test.want, "ends")
		})
	}
}

// TestEndIsRememberedByTheServer: a completed pod keeps its exit codes if its containers were removed while no kubelet
// ran.
func TestEndIsRememberedByTheServer(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "app:a app:b")
	first := Generate(inputOf(pod, seenOf("a=exited:3 b=exited:0")))
	later := inputOf(pod, &model.PodStatus{})
	later.Old = first
	status := Generate(later)
	got := ends(status)
	testutil.Assert(t, got == "a3 b0" && status.Phase == v1.PodFailed, "%s %q", status.Phase, got)
}

// TestRemovedWhileItRan: another client removed a running container, or an ended one. The pod is not Pending, and a
// restart of the running one is counted once.
func TestRemovedWhileItRan(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	removed := inputOf(pod, seenOf(""))
	removed.Old = Generate(inputOf(pod, seenOf("a=running")))
	for range 2 {
		got := Generate(removed)
		a := got.ContainerStatuses[0]
		testutil.Assert(t, got.Phase == v1.PodRunning && a.RestartCount == 1 && a.State.Waiting != nil &&
			a.LastTerminationState.Terminated != nil, "%s, %+v", got.Phase, a)
		testutil.Equal(t, a.LastTerminationState.Terminated.Message, "The container could not be located when the "+
			"pod was deleted.  The container used to be Running", "message")
		removed.Old = got
	}
	ended := inputOf(pod, seenOf(""))
	ended.Old = Generate(inputOf(pod, seenOf("a=exited:3")))
	got := Generate(ended)
	a := got.ContainerStatuses[0]
	testutil.Assert(t, got.Phase == v1.PodRunning && a.RestartCount == 0 &&
		a.LastTerminationState.Terminated != nil && a.LastTerminationState.Terminated.ExitCode == 3,
		"after its end: %s, %+v", got.Phase, a)
}
