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
)

// unchanged returns a check that the pod named pod is ready, and that its container main was not replaced.
func (n *node) unchanged(before *v1.Pod) func() error {
	return func() error {
		pod, err := n.find("pod")
		if err != nil {
			return err
		}
		if id(pod, "main") != id(before, "main") ||
			status(pod, "main").RestartCount != status(before, "main").RestartCount {
			return fmt.Errorf("the container was replaced:\n%s\n%s", states(before), states(pod))
		}
		return wantReady(pod, v1.ConditionTrue)
	}
}

// TestKubeletRestart ends and kills the kubelet, and starts it again. Running containers stay, and containers that died
// meanwhile are restarted.
func TestKubeletRestart(t *testing.T) {
	n := newNode(t)
	n.write("pod.yaml", simple("pod", "sleep 1000"))
	n.write("other.yaml", simple("other", "sleep 1000"))
	before := n.ready("pod")
	other := n.ready("other")
	n.stop()
	n.start()
	n.ready("pod")
	n.kill()
	n.killContainers(id(other, "main"))
	n.start()
	n.restarted("other", "main", 1)
	n.ready("pod")
	stays(t, "after the restart", 2*time.Second, n.unchanged(before))
}

// TestManifestRemovedWhileAway removes and changes manifests while no kubelet runs. The next kubelet ends and replaces
// their pods.
func TestManifestRemovedWhileAway(t *testing.T) {
	n := newNode(t)
	n.write("removed.yaml", simple("removed", "sleep 1000"))
	n.write("changed.yaml", simple("changed", "echo one; sleep 1000"))
	n.ready("removed")
	first := n.ready("changed")
	n.stop()
	n.remove("removed.yaml")
	n.write("changed.yaml", simple("changed", "echo two; sleep 1000"))
	n.start()
	n.gone("removed")
	n.replaced(first)
}

// TestManifestPutBack removes a manifest and puts it back while the pod's container is still ending. The pod runs
// again.
func TestManifestPutBack(t *testing.T) {
	n := newNode(t)
	manifest := simple("pod", "trap '' TERM; while :; do sleep 1; done")
	manifest = strings.Replace(manifest, "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 5", 1)
	n.write("pod.yaml", manifest)
	n.ready("pod")
	n.remove("pod.yaml")
	n.event("pod", "Killing")
	n.write("pod.yaml", manifest)
	n.restarted("pod", "main", 1)
}

// TestRuntimeAway stops the runtime for a while. Probes use its socket, but no running container is restarted. A pod
// that comes meanwhile starts afterwards, and a container that died meanwhile is restarted. The probe has time enough
// for a busy machine.
func TestRuntimeAway(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sleep, "1000"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 20}
  - {name: dies, image: SHELL, command: [sleep, "1000"]}
`)
	before := n.ready("pod")
	testutil.Must(t, n.server.Stop(t.Context()))
	n.write("late.yaml", simple("late", "sleep 1000"))
	n.killContainers(id(before, "dies"))
	n.metricsHave("kubelet_runtime_healthy 0\n")
	time.Sleep(2 * time.Second)
	_, err := n.get("/healthz")
	testutil.Assert(t, err == nil, "the kubelet is unhealthy after seconds without the runtime: %v", err)
	testutil.Must(t, n.server.Start(t.Context()))
	n.ready("late")
	n.restarted("pod", "dies", 1)
	n.ready("pod")
	stays(t, "after the runtime is back", 2*time.Second, n.unchanged(before))
}

// TestRuntimeCrash kills the runtime while pods run and start.
func TestRuntimeCrash(t *testing.T) {
	n := newNode(t)
	before := n.run("pod", "sleep 1000")
	n.write("starting.yaml", simple("starting", "sleep 1000"))
	time.Sleep(200 * time.Millisecond)
	n.server.Kill()
	time.Sleep(500 * time.Millisecond)
	testutil.Must(t, n.server.Start(t.Context()))
	n.ready("starting")
	stays(t, "after the crash", 2*time.Second, n.unchanged(before))
}

// TestStartWithoutRuntime starts the kubelet before the runtime.
func TestStartWithoutRuntime(t *testing.T) {
	n := newNode(t)
	before := n.run("pod", "sleep 1000")
	n.stop()
	testutil.Must(t, n.server.Stop(t.Context()))
	started := testutil.Go(func() error {
		time.Sleep(2 * time.Second)
		return n.server.Start(t.Context())
	})
	n.start()
	testutil.Must(t, <-started)
	n.ready("pod")
	stays(t, "after the start", time.Second, n.unchanged(before))
}

// TestCheckpoint: accepted pods come back although their manifest is broken at the kubelet's start. A damaged
// checkpoint is renamed.
func TestCheckpoint(t *testing.T) {
	n := newNode(t)
	before := n.run("pod", "sleep 1000")
	n.stop()
	n.write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: pod")
	n.start()
	n.ready("pod")
	n.event("", "InvalidManifest")
	stays(t, "restored", 2*time.Second, n.unchanged(before))

	n.stop()
	n.write("pod.yaml", simple("pod", "sleep 1000"))
	checkpoint := filepath.Join(n.root, "pods.json")
	testutil.Must(t, os.WriteFile(checkpoint, []byte("{garbage"), 0o600))
	n.start()
	n.event("", "CheckpointUnreadable")
	n.ready("pod")
	testutil.Exists(t, checkpoint+".corrupt")
	stays(t, "from the manifest", 2*time.Second, n.unchanged(before))
}
