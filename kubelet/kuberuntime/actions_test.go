package kuberuntime

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// statusOf makes a status from words, oldest first: "sandbox", "dead-sandbox", "a=running", "a=exited:3", "a=created".
// A container is in the last sandbox before its word.
func statusOf(words string) *model.PodStatus {
	status := &model.PodStatus{UID: "uid"}
	created := time.Unix(1000, 0)
	attempts := map[string]uint32{}
	for i, word := range strings.Fields(words) {
		created = created.Add(time.Second)
		name, state, container := strings.Cut(word, "=")
		if !container {
			status.Sandboxes = slices.Insert(status.Sandboxes, 0, model.SandboxStatus{
				ID: fmt.Sprintf("s%d", len(status.Sandboxes)), Attempt: uint32(len(status.Sandboxes)),
				Ready:     name == "sandbox",
				CreatedAt: created, IPs: []string{"10.0.0.1"},
			})
			continue
		}
		c := model.ContainerStatus{
			ID: fmt.Sprintf("%s-%d", name, i), Name: name, SandboxID: status.Sandboxes[0].ID, Attempt: attempts[name],
			CreatedAt: created, Hash: model.ContainerHash(&v1.Container{Name: name, Image: "image"}),
		}
		attempts[name]++
		word, code, _ := strings.Cut(state, ":")
		c.State = model.ContainerState(word)
		fmt.Sscan(code, &c.ExitCode)
		status.Containers = slices.Insert(status.Containers, 0, c)
	}
	return status
}

// asWanted is a function of the type actuated. It returns the allocated resources as the actuated ones.
func asWanted(_ types.UID, c *v1.Container, _ *model.ContainerStatus) (v1.ResourceRequirements, bool) {
	return c.Resources, true
}

// words writes actions as text.
func words(a podActions) string {
	var list []string
	if a.KillSandbox {
		list = append(list, "kill-sandbox")
	}
	if a.CreateSandbox {
		list = append(list, fmt.Sprintf("sandbox#%d", a.Attempt))
	}
	for _, k := range a.Kill {
		list = append(list, "kill:"+k.Container.ID)
	}
	for _, r := range a.Resize {
		list = append(list, "resize:"+r.Container.ID)
	}
	for _, s := range a.Start {
		list = append(list, fmt.Sprintf("start:%s#%d", s.Spec.Name, s.Attempt))
	}
	return strings.Join(list, " ")
}

// decided is computePodActions as text, without results of probes and without a resize.
func decided(pod *v1.Pod, seen *model.PodStatus) string {
	return words(computePodActions(pod, seen, Probes{}, asWanted))
}

func TestComputeActions(t *testing.T) {
	const (
		always    = v1.RestartPolicyAlways
		onFailure = v1.RestartPolicyOnFailure
		never     = v1.RestartPolicyNever
	)
	for _, test := range []struct {
		name   string
		policy v1.RestartPolicy
		pod    string
		seen   string
		want   string
	}{
		{"new", always, "app:a app:b", "", "sandbox#0 start:a#0 start:b#0"},
		{"as it should be", always, "app:a", "sandbox a=running", ""},
		{"ended, always", always, "app:a", "sandbox a=exited:0", "start:a#1"},
		{"failed again", always, "app:a", "sandbox a=exited:1 a=exited:1", "start:a#2"},
		{"ended well, on failure", onFailure, "app:a app:b", "sandbox a=exited:0 b=running", ""},
		{"failed, on failure", onFailure, "app:a app:b", "sandbox a=exited:1 b=running", "start:a#1"},
		{"one over, never", never, "app:a app:b", "sandbox a=exited:1 b=running", ""},
		{"all over", never, "app:a app:b", "sandbox a=exited:1 b=exited:0", "kill-sandbox"},
		{"created and not started", never, "app:a", "sandbox a=created", "start:a#1"},
		{"one of two missing", always, "app:a app:b", "sandbox a=running", "start:b#0"},
		{"unknown container", always, "app:a", "sandbox a=running x=running", "kill:x-2"},
		{"two attempts run", always, "app:a", "sandbox a=running a=running", "kill:a-1"},
		{"unknown state", always, "app:a", "sandbox a=unknown", "kill:a-1 start:a#1"},

		{"sandbox died", always, "app:a", "dead-sandbox a=exited:137", "kill-sandbox sandbox#1 start:a#1"},
		{"sandbox died, container runs", always, "app:a", "dead-sandbox a=running", "kill-sandbox sandbox#1 start:a#1"},
		{"sandbox died, never", never, "app:a", "dead-sandbox a=exited:137", "kill-sandbox"},
		{"sandbox died, on failure, all over", onFailure, "app:a", "dead-sandbox a=exited:0", "kill-sandbox"},
		{"sandbox died before any container, never", never, "app:a", "dead-sandbox",
			"kill-sandbox sandbox#1 start:a#0"},
		{"two ready sandboxes", always, "app:a", "sandbox sandbox a=running", "kill-sandbox sandbox#2 start:a#1"},
		{"sandbox died with init containers", always, "init:i app:a", "dead-sandbox i=exited:0 a=exited:0",
			"kill-sandbox sandbox#1 start:i#1"},

		{"new with init containers", always, "init:i init:j app:a", "", "sandbox#0 start:i#0"},
		{"first init runs", always, "init:i init:j app:a", "sandbox i=running", ""},
		{"first init over", always, "init:i init:j app:a", "sandbox i=exited:0", "start:j#0"},
		{"all init over", always, "init:i init:j app:a app:b", "sandbox i=exited:0 j=exited:0", "start:a#0 start:b#0"},
		{"init of the sandbox before", always, "init:i app:a", "dead-sandbox i=exited:0 sandbox", "start:i#1"},
		{"init failed, always", always, "init:i app:a", "sandbox i=exited:1", "start:i#1"},
		{"init failed, never", never, "init:i app:a", "sandbox i=exited:1", "kill-sandbox"},
		{"init was collected", always, "init:i init:j app:a", "sandbox j=exited:0", "start:a#0"},
		{"init was collected, app runs", always, "init:i app:a", "sandbox a=running", ""},
		{"init created and not started", always, "init:i app:a", "sandbox i=created", "start:i#1"},

		{"new sidecar", always, "side:s app:a", "", "sandbox#0 start:s#0"},
		{"sidecar runs", always, "side:s app:a", "sandbox s=running", "start:a#0"},
		{"sidecar between init containers", always, "init:i side:s init:j app:a", "sandbox i=exited:0 s=running",
			"start:j#0"},
		{"sidecar died while init runs", always, "side:s init:j app:a", "sandbox s=exited:1 j=running", "start:s#1"},
		{"sidecar died beside the app", always, "side:s app:a", "sandbox s=exited:0 a=running", "start:s#1"},
		{"sidecar died, never", never, "side:s app:a", "sandbox s=exited:0 a=running", "start:s#1"},
		{"apps over, sidecar runs", never, "side:s app:a", "sandbox s=running a=exited:0", "kill-sandbox"},
		{"init failed for good beside a sidecar", never, "side:s init:j app:a", "sandbox s=running j=exited:2",
			"kill-sandbox"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := modeltest.Pod(test.policy, test.pod)
			testutil.Equal(t, decided(pod, statusOf(test.seen)), test.want, "decided")
		})
	}
}

func TestComputeActionsProbes(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "side:s", "app:a")
	pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	grace := int64(7)
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &grace}

	waits := computePodActions(pod, statusOf("sandbox s=running"), Probes{}, asWanted)
	testutil.Assert(t, waits.nothing(), "the app does not wait for the sidecar's startup probe: %s", words(waits))
	passed := Probes{Started: map[string]bool{"s-1": true}}
	got := words(computePodActions(pod, statusOf("sandbox s=running"), passed, asWanted))
	testutil.Assert(t, got == "start:a#0", "after the startup probe: %s", got)

	seen := statusOf("sandbox s=running a=running")
	failed := Probes{LivenessFailed: map[string]bool{"a-2": true}, Started: map[string]bool{"s-1": true, "a-2": true}}
	actions := computePodActions(pod, seen, failed, asWanted)
	testutil.Assert(t, words(actions) == "kill:a-2 start:a#1" && actions.Kill[0].ProbeGrace == &grace,
		"liveness: %s, grace %v", words(actions), actions.Kill[0].ProbeGrace)
	testutil.Equal(t, actions.Kill[0].Message, "Container a failed liveness probe, will be restarted", "event")
	starting := Probes{LivenessFailed: failed.LivenessFailed, Started: passed.Started}
	testutil.Equal(t, computePodActions(pod, seen, starting, asWanted).Kill[0].Message,
		"Container a failed startup probe, will be restarted", "event")
	sidecar := Probes{LivenessFailed: map[string]bool{"s-1": true}, Started: failed.Started}
	testutil.Equal(t, computePodActions(pod, seen, sidecar, asWanted).Kill[0].Message,
		"Init container s failed liveness probe", "event")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	got = words(computePodActions(pod, seen, failed, asWanted))
	testutil.Assert(t, got == "kill-sandbox", "liveness with policy Never: %s", got)
}

// TestKillTextsOfUnknownStates: a container in an unknown state is killed with the kubelet's text.
func TestKillTextsOfUnknownStates(t *testing.T) {
	for seen, want := range map[string]string{
		"sandbox i=exited:0 a=unknown": `Container is in "unknown" state, try killing it before restart`,
		"sandbox i=unknown":            `Init container is in "unknown" state, try killing it before restart`,
	} {
		pod := modeltest.Pod(v1.RestartPolicyAlways, "init:i app:a")
		kills := computePodActions(pod, statusOf(seen), Probes{}, asWanted).Kill
		testutil.Require(t, len(kills) == 1, "%s: %+v", seen, kills)
		testutil.Equal(t, kills[0].Message, want, "%s", seen)
	}
}

func TestComputeActionsChanges(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyNever, "app:a", "app:b")
	pod.Spec.Containers[0].Image = "another"
	testutil.Equal(t, decided(pod, statusOf("sandbox a=running b=running")), "kill:a-1 start:a#1", "another image")
	pod = modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Spec.HostNetwork = true
	got := decided(pod, statusOf("sandbox a=running"))
	testutil.Assert(t, got == "kill-sandbox sandbox#1 start:a#1", "another network: %s", got)
	noAddress := statusOf("sandbox a=running")
	noAddress.Sandboxes[0].IPs = nil
	pod.Spec.HostNetwork = false
	testutil.Equal(t, decided(pod, noAddress), "kill-sandbox sandbox#1 start:a#1", "no address")
}

// FuzzComputeActions checks a few invariants for any status.
func FuzzComputeActions(f *testing.F) {
	f.Add("init:i side:s app:a", "sandbox i=exited:0 s=running a=exited:1", uint8(0))
	f.Add("app:a app:b", "dead-sandbox a=running", uint8(1))
	f.Add("side:s", "sandbox s=unknown", uint8(2))
	f.Fuzz(func(t *testing.T, podWords, seenWords string, policy uint8) {
		policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
		pod := modeltest.Pod(policies[int(policy)%len(policies)], podWords)
		if first, _, _ := strings.Cut(strings.TrimSpace(seenWords), " "); strings.Contains(first, "=") {
			seenWords = "sandbox " + seenWords
		}
		seen := statusOf(seenWords)
		actions := computePodActions(pod, seen, Probes{}, asWanted)
		started := map[string]bool{}
		for _, start := range actions.Start {
			if started[start.Spec.Name] && len(pod.Spec.Containers)+len(pod.Spec.InitContainers) == countNames(pod) {
				t.Errorf("%s starts twice", start.Spec.Name)
			}
			started[start.Spec.Name] = true
			if last := seen.Container(start.Spec.Name); last != nil && start.Attempt != last.Attempt+1 {
				t.Errorf("%s gets attempt %d after %d", start.Spec.Name, start.Attempt, last.Attempt)
			}
		}
		testutil.Assert(t, len(actions.Start) == 0 || !actions.KillSandbox || actions.CreateSandbox,
			"containers start in a sandbox that is killed")
		testutil.Assert(t, len(actions.Start) == 0 || actions.CreateSandbox || actions.SandboxID != "",
			"containers start in no sandbox")
	})
}

func countNames(pod *v1.Pod) int {
	names := map[string]bool{}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { names[c.Name] = true })
	return len(names)
}
