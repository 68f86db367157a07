package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

var now = time.Unix(10_000, 0)

// seenOf makes a pod's status in the runtime from words, oldest first: "a=running", "a=exited:3", "a=created".
func seenOf(words string) *model.PodStatus {
	seen := &model.PodStatus{
		Sandboxes: []model.SandboxStatus{
			{ID: "s", Ready: true, IPs: []string{"10.0.0.1", "fd00::1"}, CreatedAt: now.Add(-time.Hour)}}}
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
	in := Input{Pod: pod, Runtime: seen, RuntimeName: "docker", Ready: map[string]bool{}, Started: map[string]bool{},
		HostIPs: []string{"192.0.2.1"}, Now: now}
	for _, c := range seen.Containers {
		if c.State == model.StateRunning {
			in.Ready[c.ID], in.Started[c.ID] = true, true
		}
	}
	return in
}

func TestContainerStates(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b app:c app:d"),
		seenOf("a=exited:3 a=running b=exited:7 d=created"))
	in.Waiting = map[string]*model.ReasonError{
		"b": {Reason: model.ReasonCrashLoopBackOff, Err: errors.New("back-off")},
		"c": {Reason: model.ReasonErrImagePull, Err: errors.New("no such image")},
		"d": {Reason: model.ReasonRunContainerError, Err: errors.New("no such file")},
	}
	status := Generate(in).ContainerStatuses
	a, b, c, d := status[0], status[1], status[2], status[3]
	testutil.Assert(t, a.State.Running != nil && a.Ready && *a.Started && a.RestartCount == 1 &&
		a.ContainerID == "docker://a-1" && a.ImageID == "ref" && a.LastTerminationState.Terminated != nil &&
		a.LastTerminationState.Terminated.ExitCode == 3, "running: %+v", a)
	testutil.Assert(t, b.State.Waiting != nil && b.State.Waiting.Reason == model.ReasonCrashLoopBackOff &&
		b.LastTerminationState.Terminated.ExitCode == 7, "in back-off: %+v", b)
	testutil.Assert(t, c.State.Waiting != nil && c.State.Waiting.Reason == model.ReasonErrImagePull &&
		c.State.Waiting.Message == "no such image", "without an image: %+v", c)
	testutil.Assert(t, d.State.Waiting != nil && d.State.Waiting.Reason == model.ReasonRunContainerError,
		"not started: %+v", d)
	in.Ending = true
	b = Generate(in).ContainerStatuses[1]
	testutil.Assert(t, b.State.Terminated != nil, "in back-off while ending: %+v", b)
}

// TestReasonsBeforeASync: waiting reasons of the old status stay until a sync, except ContainerCreating and
// PodInitializing.
func TestReasonsBeforeASync(t *testing.T) {
	in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b app:c"), seenOf("a=exited:7"))
	in.Old.ContainerStatuses = []v1.ContainerStatus{
		{Name: "a",
			State: v1.ContainerState{
				Waiting: &v1.ContainerStateWaiting{Reason: model.ReasonCrashLoopBackOff, Message: "back-off"}}},
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
	if got := reasons(); got != [3]string{model.ReasonCrashLoopBackOff, model.ReasonErrImagePull,
		model.ReasonContainerCreating} {
		t.Errorf("reasons before a sync: %v", got)
	}
	in.Waiting = map[string]*model.ReasonError{}
	if got := reasons(); got != [3]string{"", model.ReasonContainerCreating, model.ReasonContainerCreating} {
		t.Errorf("reasons after a sync that found none: %v", got)
	}
}

// TestRemovedContainersKeepTheirStatus: a container that the runtime no longer lists takes its end from the old status.
func TestRemovedContainersKeepTheirStatus(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "init:i app:a")
	before := inputOf(pod, seenOf("i=exited:0 a=running"))
	first := Generate(before)
	after := inputOf(pod, seenOf("a=running"))
	after.Old = first
	i := Generate(after).InitContainerStatuses[0]
	testutil.Assert(t, i.State.Terminated != nil && i.ContainerID == "docker://i-0", "removed init container: %+v", i)
	after.Old = Generate(inputOf(pod, seenOf("i=running")))
	status := Generate(after)
	i = status.InitContainerStatuses[0]
	testutil.Assert(t, i.State.Terminated != nil && i.State.Terminated.ExitCode == 0 && status.Phase == v1.PodRunning,
		"init container whose end was not seen: %+v, phase %s", i, status.Phase)
	testutil.Equal(t, i.State.Terminated.Message, "Unable to get init container status from container runtime and "+
		"pod has been initialized, treat it as exited normally", "message")
	lost := inputOf(pod, &model.PodStatus{})
	lost.Old, lost.Ending = first, true
	status = Generate(lost)
	a := status.ContainerStatuses[0]
	testutil.Assert(t, a.State.Terminated != nil && a.State.Terminated.Reason == "ContainerStatusUnknown" && !a.Ready,
		"lost container: %+v", a)
	testutil.Equal(t, a.State.Terminated.Message, "The container could not be located when the pod was terminated",
		"message")
	lost.Stopping = true
	ready := model.FindCondition(Generate(lost).Conditions, v1.PodReady)
	testutil.Assert(t, ready.Status == v1.ConditionFalse, "the pod of a lost container is ready: %+v", ready)
	testutil.Assert(t, status.PodIP == "10.0.0.1", "address %q after the end", status.PodIP)
}

func TestAddressesAndTimes(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	in := inputOf(pod, seenOf("a=running"))
	status := Generate(in)
	testutil.Assert(t, status.PodIP == "10.0.0.1" && len(status.PodIPs) == 2 && status.HostIP == "192.0.2.1" &&
		status.StartTime.Time.Equal(now.Add(-time.Hour)), "status %+v", status)
	in.Runtime.Sandboxes[0].IPs = []string{"fd00::1", "10.0.0.1", "10.0.0.2"}
	several := Generate(in)
	testutil.Assert(t, several.PodIP == "10.0.0.1" && len(several.PodIPs) == 2 && several.PodIPs[1].IP == "fd00::1",
		"of several addresses: %+v", several.PodIPs)
	in.Old, in.Now = status, now.Add(time.Minute)
	testutil.Assert(t, Generate(in).Conditions[0].LastTransitionTime == status.Conditions[0].LastTransitionTime,
		"an unchanged condition has another transition time")
	in.Ready = nil
	later := Generate(in)
	ready := model.FindCondition(later.Conditions, v1.PodReady)
	testutil.Assert(t, ready.LastTransitionTime.Time.Equal(in.Now) && ready.Reason == "ContainersNotReady" &&
		strings.Contains(ready.Message, "[a]"), "unready: %+v", ready)
	pod.Spec.HostNetwork = true
	status = Generate(inputOf(pod, seenOf("a=running")))
	testutil.Assert(t, status.PodIP == "192.0.2.1", "in the host's network: %s", status.PodIP)
}

func TestPodReadyToStartContainers(t *testing.T) {
	ready := model.SandboxStatus{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}
	for _, c := range []struct {
		name      string
		sandboxes []model.SandboxStatus
		problem   string
	}{
		{"none", nil, "no pod sandbox exists"},
		{"one", []model.SandboxStatus{ready, {}}, ""},
		{"ended", []model.SandboxStatus{{IPs: ready.IPs}}, "pod sandbox is not ready"},
		{"an older one is ready", []model.SandboxStatus{{}, ready}, "pod sandbox is not ready"},
		{"two", []model.SandboxStatus{ready, ready}, "multiple pod sandboxes are ready"},
		{"no address", []model.SandboxStatus{{Ready: true}}, "pod sandbox has no IP address"},
		{"the host's network", []model.SandboxStatus{{Ready: true, HostNetwork: true}},
			"pod sandbox has another network namespace mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := inputOf(modeltest.Pod(v1.RestartPolicyAlways, "app:a"), seenOf(""))
			in.Runtime.Sandboxes = c.sandboxes
			got := model.FindCondition(Generate(in).Conditions, v1.PodReadyToStartContainers)
			want := condition(v1.PodReadyToStartContainers, true, "", "")
			if c.problem != "" {
				want = condition(v1.PodReadyToStartContainers, false, "PodSandboxNotReady", c.problem)
			}
			want.LastTransitionTime = got.LastTransitionTime
			testutil.Equal(t, *got, want, "the condition")
		})
	}
}

func TestReadinessGates(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.org/gate"}}
	in := inputOf(pod, seenOf("a=running"))
	ready := model.FindCondition(Generate(in).Conditions, v1.PodReady)
	testutil.Assert(t, ready.Status == v1.ConditionFalse && ready.Reason == "ReadinessGatesNotReady",
		"gate closed: %+v", ready)
	testutil.Equal(t, ready.Message,
		`corresponding condition of pod readiness gate "example.org/gate" does not exist.`, "message")
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.org/gate", Status: v1.ConditionUnknown}}
	ready = model.FindCondition(Generate(in).Conditions, v1.PodReady)
	testutil.Equal(t, ready.Message,
		`the status of pod readiness gate "example.org/gate" is not "True", but Unknown`, "message")
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.org/gate", Status: v1.ConditionTrue},
		{Type: v1.PodReady, Status: v1.ConditionFalse}}
	status := Generate(in)
	ready = model.FindCondition(status.Conditions, v1.PodReady)
	testutil.Assert(t, ready.Status == v1.ConditionTrue, "gate open: %+v", ready)
	gate := model.FindCondition(status.Conditions, "example.org/gate")
	testutil.Assert(t, gate != nil, "the gate's condition is lost")
	in.Old, pod.Status.Conditions = status, nil
	status = Generate(in)
	ready = model.FindCondition(status.Conditions, v1.PodReady)
	gate = model.FindCondition(status.Conditions, "example.org/gate")
	testutil.Assert(t, ready.Status == v1.ConditionFalse && gate == nil,
		"gate taken away: %+v", status.Conditions)
}

func TestStore(t *testing.T) {
	s := NewManager()
	changed, stop := s.Watch()
	defer stop()
	notified := func() bool {
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
	testutil.Assert(t, s.Status(pod).Message == "from the source", "a new pod does not have its source's status")
	s.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	testutil.Assert(t, notified() && s.Status(pod).Phase == v1.PodRunning && len(s.List()) == 1, "not set")
	kept := s.Get("u")
	s.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	testutil.Assert(t, !notified() && s.Get("u") == kept, "a Set without a change notifies the watchers")
	s.Forget("u")
	testutil.Assert(t, notified() && len(s.List()) == 0 && s.Get("u") == nil, "not forgotten")
}

// restartsAll makes the exit code 42 of the pod's first app container restart all containers.
func restartsAll(pod *v1.Pod) {
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{42}},
	}}
}

// TestRestartAllContainersKeepsThePodRunning: while all containers restart, the phase and Initialized do not change.
func TestRestartAllContainersKeepsThePodRunning(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "init:i app:a app:b")
	restartsAll(pod)
	var last v1.PodStatus
	for _, step := range []struct {
		seen       string
		restarting v1.ConditionStatus
	}{
		{"i=exited:0 a=running b=running", v1.ConditionFalse}, {"i=exited:0 a=exited:42 b=running", v1.ConditionTrue},
		{"", v1.ConditionFalse}, {"i=running", v1.ConditionFalse},
		{"i=exited:0 a=exited:1 b=running", v1.ConditionFalse},
	} {
		in := inputOf(pod, seenOf(step.seen))
		for i := range in.Runtime.Containers {
			in.Runtime.Containers[i].SandboxID = "s"
		}
		in.Old = last
		last = Generate(in)
		testutil.Assert(t, last.Phase == v1.PodRunning, "%q: phase %s", step.seen, last.Phase)
		found := model.FindCondition(last.Conditions, v1.PodInitialized)
		testutil.Assert(t, found.Status == v1.ConditionTrue, "%q: %+v", step.seen, found)
		found = model.FindCondition(last.Conditions, v1.AllContainersRestarting)
		testutil.Assert(t, found != nil && found.Status == step.restarting, "%q: %+v", step.seen, found)
	}
}

// TestRestartAllContainersStates: containers that were removed to restart all have the kubelet's states, whether the
// next status already shows their next attempt or not. A restart is counted once.
func TestRestartAllContainersStates(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "init:i app:a app:b")
	restartsAll(pod)
	triggered := seenOf("i=exited:0 a=exited:42 b=running")
	for i := range triggered.Containers {
		triggered.Containers[i].SandboxID = "s"
	}
	in := inputOf(pod, triggered)
	in.Old = Generate(in)
	found := model.FindCondition(in.Old.Conditions, v1.AllContainersRestarting)
	testutil.Equal(t, found.Message, "container exited with restart policy rule", "message")
	for _, seen := range []string{"", "i=running", "i=exited:0", "i=exited:0 a=running b=running"} {
		in.Runtime = seenOf(seen)
		for i := range in.Runtime.Containers {
			in.Runtime.Containers[i].ID, in.Runtime.Containers[i].Attempt = "next"+in.Runtime.Containers[i].Name, 1
		}
		status := Generate(in)
		for _, c := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
			before := c.LastTerminationState.Terminated
			testutil.Assert(t, c.RestartCount == 1 && before != nil && before.ExitCode == 137 &&
				before.Reason == "RestartingAllContainers", "%q: %+v", seen, c)
			if waiting := c.State.Waiting; waiting != nil && in.Old.ContainerStatuses[0].State.Waiting == nil {
				testutil.Equal(t, *waiting, v1.ContainerStateWaiting{Reason: "RestartingAllContainers",
					Message: "The container is removed because RestartAllContainers in place"}, "state")
			}
		}
		in.Old = status
	}
}
