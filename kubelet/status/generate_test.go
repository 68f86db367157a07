package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

var now = time.Unix(10_000, 0)

// seenOf makes what the runtime shows from words, oldest first: "a=running", "a=exited:3", "a=created".
func seenOf(words string) *model.PodStatus {
	seen := &model.PodStatus{Sandboxes: []model.SandboxStatus{{ID: "s", Ready: true, IPs: []string{"10.0.0.1", "fd00::1"}, CreatedAt: now.Add(-time.Hour)}}}
	attempts := map[string]uint32{}
	for i, word := range strings.Fields(words) {
		name, state, _ := strings.Cut(word, "=")
		state, code, _ := strings.Cut(state, ":")
		c := model.ContainerStatus{
			ID: fmt.Sprintf("%s-%d", name, i), Name: name, Attempt: attempts[name], State: model.ContainerState(state),
			StartedAt: now.Add(-time.Minute), Image: "image", ImageID: "id", ImageRef: "ref",
		}
		fmt.Sscan(code, &c.ExitCode)
		if c.State == model.StateExited {
			c.FinishedAt = now
		}
		attempts[name]++
		seen.Containers = append([]model.ContainerStatus{c}, seen.Containers...)
	}
	return seen
}

// inputOf lets all running containers pass their probes.
func inputOf(pod *v1.Pod, seen *model.PodStatus) Input {
	in := Input{Pod: pod, Runtime: seen, RuntimeName: "docker", Ready: map[string]bool{}, Started: map[string]bool{}, HostIPs: []string{"192.0.2.1"}, Now: now}
	for _, c := range seen.Containers {
		if c.State == model.StateRunning {
			in.Ready[c.ID], in.Started[c.ID] = true, true
		}
	}
	return in
}

// TestTerminalPhaseOfTheServer is taken over with its reason, whatever runs yet.
func TestTerminalPhaseOfTheServer(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	in := inputOf(pod, seenOf("a=running"))
	in.Old = Generate(in)
	pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "no room"}
	for range 2 {
		in.Old = Generate(in)
		if in.Old.Phase != v1.PodFailed || in.Old.Reason != "Evicted" || in.Old.Message != "no room" {
			t.Errorf("%s, %s: %s", in.Old.Phase, in.Old.Reason, in.Old.Message)
		}
	}
}

func TestPhaseAndReady(t *testing.T) {
	const (
		alwaysRestart = v1.RestartPolicyAlways
		onFailure     = v1.RestartPolicyOnFailure
		never         = v1.RestartPolicyNever
	)
	tests := []struct {
		name   string
		policy v1.RestartPolicy
		pod    string
		seen   string
		ending bool
		want   string // phase, then "ready" and "initialized" if so
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
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(modeltest.Pod(test.policy, test.pod), seenOf(test.seen))
			in.Ending = test.ending
			status := Generate(in)
			got := string(status.Phase)
			if findCondition(status.Conditions, v1.PodReady).Status == v1.ConditionTrue {
				got += " ready"
			}
			if findCondition(status.Conditions, v1.PodInitialized).Status == v1.ConditionTrue {
				got += " initialized"
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestContainerStates(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b app:c app:d"), seenOf("a=exited:3 a=running b=exited:7 d=created"))
	in.Waiting = map[string]*model.ReasonError{
		"b": {Reason: model.ReasonCrashLoopBackOff, Err: errors.New("back-off")},
		"c": {Reason: model.ReasonErrImagePull, Err: errors.New("no such image")},
		"d": {Reason: model.ReasonRunContainerError, Err: errors.New("no such file")},
	}
	status := Generate(in).ContainerStatuses
	a, b, c, d := status[0], status[1], status[2], status[3]
	if a.State.Running == nil || !a.Ready || !*a.Started || a.RestartCount != 1 || a.ContainerID != "docker://a-1" || a.ImageID != "ref" ||
		a.LastTerminationState.Terminated == nil || a.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("running: %+v", a)
	}
	if b.State.Waiting == nil || b.State.Waiting.Reason != model.ReasonCrashLoopBackOff || b.LastTerminationState.Terminated.ExitCode != 7 {
		t.Errorf("in back-off: %+v", b)
	}
	if c.State.Waiting == nil || c.State.Waiting.Reason != model.ReasonErrImagePull || c.State.Waiting.Message != "no such image" {
		t.Errorf("without an image: %+v", c)
	}
	if d.State.Waiting == nil || d.State.Waiting.Reason != model.ReasonRunContainerError {
		t.Errorf("not started: %+v", d)
	}
	in.Ending = true
	if b := Generate(in).ContainerStatuses[1]; b.State.Terminated == nil {
		t.Errorf("in back-off while ending: %+v", b)
	}
}

// TestReasonsBeforeASync keeps the reasons of the status before until a sync has found others, but not those of a pod
// that is only being made.
func TestReasonsBeforeASync(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b app:c"), seenOf("a=exited:7"))
	in.Old.ContainerStatuses = []v1.ContainerStatus{
		{Name: "a", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: model.ReasonCrashLoopBackOff, Message: "back-off"}}},
		{Name: "b", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: model.ReasonErrImagePull}}},
		{Name: "c", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: model.ReasonPodInitializing}}},
	}
	reasons := func() (all [3]string) {
		for i, c := range Generate(in).ContainerStatuses {
			if c.State.Waiting != nil {
				all[i] = c.State.Waiting.Reason
			}
		}
		return all
	}
	if got := reasons(); got != [3]string{model.ReasonCrashLoopBackOff, model.ReasonErrImagePull, model.ReasonContainerCreating} {
		t.Errorf("before a sync they wait for %v", got)
	}
	in.Waiting = map[string]*model.ReasonError{}
	if got := reasons(); got != [3]string{"", model.ReasonContainerCreating, model.ReasonContainerCreating} {
		t.Errorf("after a sync without a reason they wait for %v", got)
	}
}

// TestRemainsAreKept keeps what is known of containers that the runtime has forgotten.
func TestRemainsAreKept(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "init:i app:a")
	before := inputOf(pod, seenOf("i=exited:0 a=running"))
	first := Generate(before)
	after := inputOf(pod, seenOf("a=running"))
	after.Old = first
	if i := Generate(after).InitContainerStatuses[0]; i.State.Terminated == nil || i.ContainerID != "docker://i-0" {
		t.Errorf("collected init container: %+v", i)
	}
	lost := inputOf(pod, &model.PodStatus{})
	lost.Old, lost.Ending = first, true
	status := Generate(lost)
	if a := status.ContainerStatuses[0]; a.State.Terminated == nil || a.State.Terminated.Reason != "ContainerStatusUnknown" {
		t.Errorf("lost container: %+v", a)
	}
	if status.PodIP != "10.0.0.1" {
		t.Errorf("address %q after the end", status.PodIP)
	}
}

func TestAddressesAndTimes(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	in := inputOf(pod, seenOf("a=running"))
	status := Generate(in)
	if status.PodIP != "10.0.0.1" || len(status.PodIPs) != 2 || status.HostIP != "192.0.2.1" || !status.StartTime.Time.Equal(now.Add(-time.Hour)) {
		t.Errorf("status %+v", status)
	}
	in.Old, in.Now = status, now.Add(time.Minute)
	if later := Generate(in); later.Conditions[0].LastTransitionTime != status.Conditions[0].LastTransitionTime {
		t.Error("a condition that stays has another time")
	}
	in.Ready = nil
	later := Generate(in)
	if ready := findCondition(later.Conditions, v1.PodReady); !ready.LastTransitionTime.Time.Equal(in.Now) || ready.Reason != "ContainersNotReady" ||
		!strings.Contains(ready.Message, "[a]") {
		t.Errorf("unready: %+v", ready)
	}
	pod.Spec.HostNetwork = true
	if status := Generate(inputOf(pod, seenOf("a=running"))); status.PodIP != "192.0.2.1" {
		t.Errorf("in the host's network: %s", status.PodIP)
	}
}

func TestTerminalPhaseStays(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyNever, "app:a"), seenOf("a=exited:0"))
	in.Old.Phase = v1.PodFailed
	if phase := Generate(in).Phase; phase != v1.PodFailed {
		t.Errorf("phase %s", phase)
	}
	in.Old = v1.PodStatus{Reason: model.ReasonDeadlineExceeded}
	in.Ending = true
	if phase := Generate(in).Phase; phase != v1.PodFailed {
		t.Errorf("after the deadline: %s", phase)
	}
}

// TestFailing: a pod that the node ends has failed when its containers have ended, however well they did, and says why.
func TestFailing(t *testing.T) {
	why := model.Failure{Reason: model.ReasonEvicted, Message: "too much", Disruption: true}
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.org/other", Status: v1.ConditionTrue}}
	running := inputOf(pod, seenOf("a=running"))
	running.Ending = true
	running.Old = Failing(Generate(running), why, now)
	ended := inputOf(pod, seenOf("a=exited:0"))
	ended.Ending, ended.Old, ended.Now = true, Generate(running), now.Add(time.Minute)
	for phase, status := range map[v1.PodPhase]v1.PodStatus{v1.PodRunning: Generate(running), v1.PodFailed: Generate(ended)} {
		if status.Phase != phase || status.Reason != "Evicted" || status.Message != "too much" {
			t.Errorf("%s, %s: %s, want %s", status.Phase, status.Reason, status.Message, phase)
		}
		got := findCondition(status.Conditions, v1.DisruptionTarget)
		if got == nil || got.Status != v1.ConditionTrue || got.Reason != "TerminationByKubelet" || got.Message != "too much" || !got.LastTransitionTime.Time.Equal(now) {
			t.Errorf("%s: condition %+v", phase, got)
		}
		if findCondition(status.Conditions, "example.org/other") == nil {
			t.Errorf("%s: somebody else's condition is lost", phase)
		}
	}
	again := Failing(running.Old, why, now.Add(time.Minute))
	if got := findCondition(again.Conditions, v1.DisruptionTarget); !got.LastTransitionTime.Time.Equal(now) {
		t.Errorf("a step that is repeated moves the transition: %+v", got)
	}
	why.Disruption = false
	if got := findCondition(Failing(v1.PodStatus{}, why, now).Conditions, v1.DisruptionTarget); got != nil {
		t.Errorf("the pod's own fault is told as %+v", got)
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "PreemptionByScheduler"}}
	if got := findCondition(Generate(inputOf(pod, seenOf("a=running"))).Conditions, v1.DisruptionTarget); got == nil || got.Reason != "PreemptionByScheduler" {
		t.Errorf("the scheduler's condition is %+v", got)
	}
}

func TestReadinessGates(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.org/gate"}}
	in := inputOf(pod, seenOf("a=running"))
	if ready := findCondition(Generate(in).Conditions, v1.PodReady); ready.Status != v1.ConditionFalse || ready.Reason != "ReadinessGatesNotReady" {
		t.Errorf("gate closed: %+v", ready)
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.org/gate", Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionFalse}}
	status := Generate(in)
	if ready := findCondition(status.Conditions, v1.PodReady); ready.Status != v1.ConditionTrue {
		t.Errorf("gate open: %+v", ready)
	}
	if findCondition(status.Conditions, "example.org/gate") == nil {
		t.Error("somebody else's condition is lost")
	}
	in.Old, pod.Status.Conditions = status, nil
	status = Generate(in)
	if ready := findCondition(status.Conditions, v1.PodReady); ready.Status != v1.ConditionFalse || findCondition(status.Conditions, "example.org/gate") != nil {
		t.Errorf("gate taken away: %+v", status.Conditions)
	}
}

func TestStore(t *testing.T) {
	s := NewManager()
	changed, stop := s.Watch()
	defer stop()
	told := func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.UID, pod.Name = "u", "pod"
	pod.Status.Message = "from the source"
	if s.Status(pod).Message != "from the source" {
		t.Error("the source's status is not the first")
	}
	s.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	if !told() || s.Status(pod).Phase != v1.PodRunning || len(s.List()) != 1 {
		t.Error("not set")
	}
	kept := s.Get("u")
	s.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	if told() || s.Get("u") != kept {
		t.Error("nothing changed, and it is told")
	}
	s.Forget("u")
	if !told() || len(s.List()) != 0 || s.Get("u") != nil {
		t.Error("not forgotten")
	}
}

// TestRestartAllContainersKeepsThePodRunning while its containers start from the beginning: the phase and Initialized
// do not go back, and how the containers ended is not lost with them.
func TestRestartAllContainersKeepsThePodRunning(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "init:i app:a app:b")
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	var last v1.PodStatus
	for _, step := range []struct {
		seen       string
		restarting v1.ConditionStatus
	}{
		{"i=exited:0 a=running b=running", v1.ConditionFalse}, {"i=exited:0 a=exited:42 b=running", v1.ConditionTrue},
		{"", v1.ConditionFalse}, {"i=running", v1.ConditionFalse}, {"i=exited:0 a=exited:1 b=running", v1.ConditionFalse},
	} {
		in := inputOf(pod, seenOf(step.seen))
		for i := range in.Runtime.Containers {
			in.Runtime.Containers[i].SandboxID = "s"
		}
		in.Old = last
		last = Generate(in)
		if last.Phase != v1.PodRunning {
			t.Errorf("%q: phase %s", step.seen, last.Phase)
		}
		if found := findCondition(last.Conditions, v1.PodInitialized); found.Status != v1.ConditionTrue {
			t.Errorf("%q: %+v", step.seen, found)
		}
		if found := findCondition(last.Conditions, v1.AllContainersRestarting); found == nil || found.Status != step.restarting {
			t.Errorf("%q: %+v", step.seen, found)
		}
		if before := last.ContainerStatuses[0].LastTerminationState.Terminated; step.seen == "" && (before == nil || before.ExitCode != 42) {
			t.Errorf("it ended before as %+v", before)
		}
	}
}
