package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestPodRuns follows one pod from its manifest to Ready and to its removal, and reads the endpoint.
func TestPodRuns(t *testing.T) {
	n := newNode(t)
	n.write("web.yaml", `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {name: web, image: HELLO, ports: [{containerPort: 8080}]}
`)
	pod := n.ready("web")
	testutil.Assert(t, pod.Namespace == "default" && pod.Spec.NodeName == n.name && len(pod.UID) == 32,
		"the pod is %s/%s on %q with UID %q", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.UID)
	for key, want := range map[string]string{
		model.AnnotationConfigSource: "file", model.AnnotationConfigHash: string(pod.UID),
		model.AnnotationManifest: n.manifests + "/web.yaml",
	} {
		testutil.Equal(t, pod.Annotations[key], want, "annotation %s", key)
	}
	web := status(pod, "web")
	testutil.Assert(t, pod.Status.Phase == v1.PodRunning && pod.Status.PodIP != "" && web.State.Running != nil &&
		web.RestartCount == 0 && strings.HasPrefix(web.ContainerID, n.server.Name()+"://"), "status %+v", pod.Status)
	for _, reason := range []string{"Pulling", "Pulled", "Created", "Started"} {
		n.event("web", reason)
	}
	n.logHas(pod, "web", 0, "hello stdout")
	_, err := n.get("/healthz")
	testutil.Check(t, err)
	metrics, err := n.get("/metrics")
	testutil.Assert(t, err == nil && strings.Contains(string(metrics), "kubelet_running_pods 1"),
		"metrics: %v\n%s", err, metrics)
	n.end("web")
}

// TestStatsSummary reads the figures of a pod, which come from CRI alone.
func TestStatsSummary(t *testing.T) {
	rigenv.RequireControllers(t, "memory")
	n := newNode(t)
	pod := n.run("web", "sleep 1000")
	eventually(t, "figures", func() error {
		of, err := n.summary(pod)
		if err != nil {
			return err
		}
		if len(of.Containers) != 1 || of.Containers[0].Name != "main" {
			return fmt.Errorf("the containers are %+v", of.Containers)
		}
		memory := of.Containers[0].Memory
		if memory == nil || memory.WorkingSetBytes == nil || *memory.WorkingSetBytes == 0 {
			return fmt.Errorf("the container has no memory figures: %+v", memory)
		}
		return nil
	})
}

// summary reads the pod's part of the summary.
func (n *node) summary(pod *v1.Pod) (statsapi.PodStats, error) {
	text, err := n.get("/stats/summary")
	if err != nil {
		return statsapi.PodStats{}, err
	}
	var summary statsapi.Summary
	if err := json.Unmarshal(text, &summary); err != nil {
		return statsapi.PodStats{}, err
	}
	for _, of := range summary.Pods {
		if of.PodRef.UID == string(pod.UID) {
			return of, nil
		}
	}
	return statsapi.PodStats{}, fmt.Errorf("no pod %s in %s", pod.Name, text)
}

// simple is a pod with one container, main, that runs a shell command and dies quickly. fields are further lines of its
// spec.
func simple(name, command string, fields ...string) string {
	var spec strings.Builder
	for _, field := range append(fields, "terminationGracePeriodSeconds: 1", "containers:") {
		fmt.Fprintf(&spec, "  %s\n", field)
	}
	const container = "  - {name: main, image: SHELL, imagePullPolicy: IfNotPresent, command: [sh, -c, %q]}\n"
	fmt.Fprintf(&spec, container, command)
	return testutil.PodYAML(name, spec.String())
}

// TestRestartPolicies lets containers end under each policy.
func TestRestartPolicies(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		name, policy string
		code         int
	}{{"never-ok", "Never", 0}, {"never-bad", "Never", 3}, {"onfailure-ok", "OnFailure", 0},
		{"onfailure-bad", "OnFailure", 3}, {"always-ok", "Always", 0}} {
		n.write(c.name+".yaml", simple(c.name, fmt.Sprintf("exit %d", c.code), "restartPolicy: "+c.policy))
	}
	n.until("never-ok", wantPhase(v1.PodSucceeded))
	bad := n.until("never-bad", wantPhase(v1.PodFailed))
	end := status(bad, "main").State.Terminated
	testutil.Assert(t, end != nil && end.ExitCode == 3 && end.Reason == "Error", "state %s", states(bad))
	n.until("onfailure-ok", wantPhase(v1.PodSucceeded))
	n.restarted("onfailure-bad", "main", 1)
	n.restarted("always-ok", "main", 1)
	for _, name := range []string{"never-ok", "never-bad", "onfailure-ok"} {
		got := status(n.until(name, func(*v1.Pod) error { return nil }), "main").RestartCount
		testutil.Assert(t, got == 0, "%s was restarted %d times", name, got)
	}
}

// TestCrashLoop lets a container fail again and again: it waits longer each time, and its status says why. The back-off
// begins anew for a container that ran for twice the longest back-off, and a slow start counts as running.
func TestCrashLoop(t *testing.T) {
	n := newNode(t, "--crash-backoff-max", "5m")
	n.write("crash.yaml", simple("crash", "echo started; exit 7"))
	pod := n.until("crash", func(pod *v1.Pod) error {
		if status(pod, "main").RestartCount < 2 {
			return fmt.Errorf("not in back-off yet: %s", states(pod))
		}
		return wantWaiting("main", "", model.ReasonCrashLoopBackOff)(pod)
	})
	last := status(pod, "main").LastTerminationState.Terminated
	testutil.Assert(t, last != nil && last.ExitCode == 7, "last state %s", states(pod))
	testutil.Assert(t, pod.Status.Phase == v1.PodRunning,
		"phase %s: between two attempts, a pod in back-off is still Running", pod.Status.Phase)
	n.event("crash", "BackOff")
	n.restarted("crash", "main", 3)
	pod = n.until("crash", func(*v1.Pod) error { return nil })
	eventually(t, "old attempts are collected", func() error {
		if text := n.log(pod, "main", 0); text != "" {
			return errors.New("the first log is still there")
		}
		return nil
	})
}

// TestInitChain runs init containers one after the other before the app container.
func TestInitChain(t *testing.T) {
	n := newNode(t)
	n.writePod("chain", `
  terminationGracePeriodSeconds: 1
  volumes: [{name: work, emptyDir: {}}]
  initContainers:
  - {name: one, image: SHELL, command: [sh, -c, "sleep 1; echo one >> /scratch/order"], volumeMounts: [{name: work, mountPath: /scratch}]}
  - {name: two, image: SHELL, command: [sh, -c, "echo two >> /scratch/order"], volumeMounts: [{name: work, mountPath: /scratch}]}
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "cat /scratch/order; sleep 1000"], volumeMounts: [{name: work, mountPath: /scratch}]}
`)
	n.until("chain", wantWaiting("main", "", model.ReasonPodInitializing))
	pod := n.ready("chain")
	n.logHas(pod, "main", 0, "one\ntwo\n")
	for _, name := range []string{"one", "two"} {
		end := status(pod, name).State.Terminated
		testutil.Assert(t, end != nil && end.ExitCode == 0, "%s: %s", name, states(pod))
	}
}

// TestInitFails repeats a failing init container, or fails the pod.
func TestInitFails(t *testing.T) {
	n := newNode(t)
	const spec = `
  restartPolicy: POLICY
  initContainers:
  - {name: init, image: SHELL, command: [sh, -c, "exit 4"]}
  containers:
  - {name: main, image: SHELL, command: [sleep, "1000"]}
`
	for name, policy := range map[string]string{"again": "Always", "never": "Never"} {
		n.writePod(name, strings.ReplaceAll(spec, "POLICY", policy))
	}
	n.until("never", wantPhase(v1.PodFailed))
	pod := n.restarted("again", "init", 2)
	testutil.Assert(t, pod.Status.Phase == v1.PodPending && status(pod, "main").State.Waiting != nil,
		"%s: %s", pod.Status.Phase, states(pod))
}
