package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestLivenessProbe: a container whose liveness probe fails is restarted, within the probe's own grace period.
func TestLivenessProbe(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 600
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap '' TERM; touch /tmp/ok; sleep 2; rm /tmp/ok; while :; do sleep 0.1; done"]
    livenessProbe: {exec: {command: [cat, /tmp/ok]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 2, terminationGracePeriodSeconds: 1}
  - {name: other, image: SHELL, command: [sleep, "1000"]}
`)
	pod := n.restarted("pod", "main", 1)
	unhealthy := n.event("pod", "Unhealthy")
	testutil.Assert(t, strings.Contains(unhealthy.Message, "Liveness probe failed") &&
		unhealthy.InvolvedObject.FieldPath == "spec.containers{main}", "event %+v", unhealthy)
	testutil.Equal(t, status(pod, "other").RestartCount, 0, "restarts of the other container")
	n.write("end.yaml", simple("end", "sleep 1000")) // other pods still start
	n.ready("end")
	// The manifest stays, because the pod's own grace period would outlast the test; the clean-up stops the sandbox.
}

// TestReadinessProbe: a pod becomes ready and unready without a restart.
func TestReadinessProbe(t *testing.T) {
	n := newNode(t)
	manifest := strings.TrimRight(simple("pod", "sleep 1000"), "}\n") +
		", readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 30, " +
		"failureThreshold: 1}}\n"
	n.write("pod.yaml", manifest)
	pod := n.until("pod", wantPhase(v1.PodRunning))
	stays(t, "unready", 2*time.Second, func() error {
		pod, err := n.find("pod")
		if err != nil {
			return err
		}
		return wantReady(pod, v1.ConditionFalse)
	})
	n.exec(pod, "main", "touch", "/tmp/ready")
	n.ready("pod")
	n.exec(pod, "main", "rm", "/tmp/ready")
	pod = n.until("pod", func(pod *v1.Pod) error { return wantReady(pod, v1.ConditionFalse) })
	testutil.Assert(t, status(pod, "main").RestartCount == 0, "restarted: %s", states(pod))
}

// TestStartupProbe: the liveness probe waits until the startup probe has succeeded.
func TestStartupProbe(t *testing.T) {
	n := newNode(t)
	manifest := strings.TrimRight(simple("NAME", "sleep SECONDS; touch /tmp/up; sleep 1000"), "}\n") +
		", startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 30, " +
		"failureThreshold: FAILURES}" +
		", livenessProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 30, " +
		"failureThreshold: 1}}\n"
	n.write("slow.yaml", strings.NewReplacer("NAME", "slow", "SECONDS", "2", "FAILURES", "120").Replace(manifest))
	n.write("never.yaml", strings.NewReplacer("NAME", "never", "SECONDS", "1000", "FAILURES", "5").Replace(manifest))
	slow := n.ready("slow")
	testutil.Assert(t, status(slow, "main").RestartCount == 0, "the liveness probe did not wait: %s", states(slow))
	n.restarted("never", "main", 1)
}

// TestNetworkProbes probes over HTTP and TCP, by port number and name.
func TestNetworkProbes(t *testing.T) {
	n := newNode(t)
	const spec = `
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: HELLO, ports: [{name: web, containerPort: 8080}], readinessProbe: {PROBE, periodSeconds: 1}}
`
	good := map[string]string{
		"http": "httpGet: {port: web, path: /x, httpHeaders: [{name: Host, value: example.org}]}",
		"tcp":  "tcpSocket: {port: 8080}",
	}
	bad := map[string]string{
		"http-closed": "httpGet: {port: 81}",
		"tcp-closed":  "tcpSocket: {port: 81}",
		"grpc-closed": "grpc: {port: 81}",
		"grpc-other":  "grpc: {port: 8080}",
	}
	for _, probes := range []map[string]string{good, bad} {
		for name, probe := range probes {
			n.writePod(name, strings.ReplaceAll(spec, "PROBE", probe))
		}
	}
	for name := range good {
		n.ready(name)
	}
	for name := range bad {
		event := n.event(name, "Unhealthy")
		testutil.Assert(t, strings.Contains(event.Message, "Readiness probe failed"), "%s: %s", name, event.Message)
		pod := n.until(name, wantPhase(v1.PodRunning))
		testutil.Check(t, wantReady(pod, v1.ConditionFalse), name)
	}
}

// TestLivenessBackoff: a container whose liveness probe always fails is restarted. Only the first restart comes at
// once: the back-off also counts ends that the kubelet itself caused.
func TestLivenessBackoff(t *testing.T) {
	n := newNode(t, "--crash-backoff", "10m", "--crash-backoff-max", "10m")
	n.write("pod.yaml", strings.TrimRight(simple("pod", "sleep 1000"), "}\n")+
		`, livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1}}`+"\n")
	crashes := wantWaiting("main", "", model.ReasonCrashLoopBackOff)
	before := n.until("pod", crashes)
	n.event("pod", "BackOff")
	count := status(before, "main").RestartCount
	testutil.Assert(t, count <= 2, "it was restarted %d times before the back-off", count)
	stays(t, "it backs off", 4*time.Second, func() error {
		pod, err := n.find("pod")
		if err != nil {
			return err
		}
		if status(pod, "main").RestartCount != status(before, "main").RestartCount {
			return fmt.Errorf("restarted: %s", states(pod))
		}
		return crashes(pod)
	})
}

// TestReadinessAcrossARestart: a ready pod stays in service until the restarted kubelet has probed it. A pod that
// became unready while no kubelet ran goes out of service.
func TestReadinessAcrossARestart(t *testing.T) {
	n := newClusterNode(t)
	pod := n.bind(`
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "touch /tmp/ready; sleep 1000"]
    readinessProbe: {exec: {command: [sh, -c, "sleep 3; test -e /tmp/ready"]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
`)
	before := n.showsReady(pod)
	// A restarted kubelet reads its checkpoint before it asks the API server. The checkpoint follows a status within a
	// tenth of a second.
	testutil.Until(t, "the checkpoint has the pod as ready", func() bool {
		text, err := os.ReadFile(filepath.Join(n.root, "pods.json"))
		return err == nil && strings.Contains(strings.ReplaceAll(string(text), " ", ""), `"ready":true`)
	})
	n.kill()
	n.start()
	stays(t, "in service", 6*time.Second, func() error {
		return wantReady(n.api.Object(pod).(*v1.Pod), v1.ConditionTrue)
	})
	n.kill()
	n.exec(before, "main", "rm", "/tmp/ready")
	n.start()
	now := n.shows(pod, "out of service", func(now *v1.Pod) error { return wantReady(now, v1.ConditionFalse) })
	testutil.Assert(t, id(now, "main") == id(before, "main"), "the container was replaced")
	n.end(pod)
}
