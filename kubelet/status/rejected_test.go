package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// TestFailing: a pod that the node ends becomes Failed when its containers have ended, whatever their exit codes.
func TestFailing(t *testing.T) {
	why := model.Failure{Reason: model.ReasonEvicted, Message: "too much", Disruption: true}
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.org/other", Status: v1.ConditionTrue}}
	running := inputOf(pod, seenOf("a=running"))
	running.Ending = true
	running.Old = Failing(Generate(running), why, now)
	ended := inputOf(pod, seenOf("a=exited:0"))
	ended.Ending, ended.Old, ended.Now = true, Generate(running), now.Add(time.Minute)
	for phase, in := range map[v1.PodPhase]Input{v1.PodRunning: running, v1.PodFailed: ended} {
		status := Generate(in)
		testutil.Assert(t, status.Phase == phase && status.Reason == "Evicted" && status.Message == "too much",
			"%s, %s: %s, want %s", status.Phase, status.Reason, status.Message, phase)
		got := model.FindCondition(status.Conditions, v1.DisruptionTarget)
		testutil.Assert(t, got != nil && got.Status == v1.ConditionTrue && got.Reason == "TerminationByKubelet" &&
			got.Message == "too much" && got.LastTransitionTime.Time.Equal(now), "%s: condition %+v", phase, got)
		testutil.Assert(t, model.FindCondition(status.Conditions, "example.org/other") != nil,
			"%s: the other condition is lost", phase)
	}
	again := Failing(running.Old, why, now.Add(time.Minute))
	got := model.FindCondition(again.Conditions, v1.DisruptionTarget)
	testutil.Assert(t, got.LastTransitionTime.Time.Equal(now), "a repeated step changes the transition time: %+v", got)
	why.Disruption = false
	got = model.FindCondition(Failing(v1.PodStatus{}, why, now).Conditions, v1.DisruptionTarget)
	testutil.Assert(t, got == nil, "without a disruption the condition is %+v", got)
	const preempted = "PreemptionByScheduler"
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: preempted}}
	status := Generate(inputOf(pod, seenOf("a=running")))
	got = model.FindCondition(status.Conditions, v1.DisruptionTarget)
	testutil.Assert(t, got != nil && got.Reason == preempted, "the scheduler's condition is %+v", got)
}

func TestRejected(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Generation = 3
	pod.Status.Conditions = []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: "example.org/x"}, {Type: v1.PodReady},
	}
	status := Rejected(pod, "OutOfcpu", "too much", now.Add(time.Millisecond))
	testutil.Assert(t, status.Phase == v1.PodFailed && status.Reason == "OutOfcpu" &&
		status.Message == "Pod was rejected: too much" && status.ObservedGeneration == 3 &&
		status.StartTime.Time.Equal(now) && status.QOSClass == v1.PodQOSBestEffort, "status %+v", status)
	testutil.Assert(t, len(status.Conditions) == 2 && model.FindCondition(status.Conditions, v1.PodReady) == nil,
		"conditions %+v", status.Conditions)
	began := metav1.NewTime(now.Add(-time.Hour))
	pod.Status.StartTime = &began
	status = Rejected(pod, "r", "m", now)
	testutil.Assert(t, status.StartTime.Equal(&began), "start time %v", status.StartTime)
}
