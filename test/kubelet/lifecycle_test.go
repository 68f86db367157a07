package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// TestSidecar: a restartable init container starts before the app container, restarts, and ends last.
func TestSidecar(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 600
  volumes: [{name: work, hostPath: {path: SCRATCH, type: Directory}}]
  initContainers:
  - name: side
    image: SHELL
    restartPolicy: Always
    command: [sh, -c, "trap 'echo side ends >> /scratch/order; exit 0' TERM; sleep 1; echo side is up >> /scratch/order; touch /tmp/up; while :; do sleep 0.1; done"]
    startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 120}
    volumeMounts: [{name: work, mountPath: /scratch}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'sleep 1; echo main ends >> /scratch/order; exit 0' TERM; echo main starts >> /scratch/order; while :; do sleep 0.1; done"]
    volumeMounts: [{name: work, mountPath: /scratch}]
`)
	pod := n.ready("pod")
	n.scratchHas("order", "side is up\nmain starts\n")
	n.killContainers(id(pod, "side"))
	pod = n.restarted("pod", "side", 1)
	testutil.Equal(t, status(pod, "main").RestartCount, 0, "restarts of main with its sidecar")
	n.scratchHas("order", "main starts\nside is up\n")
	n.end("pod")
	n.scratchHas("order", "main ends\nside ends\n")
}

// TestSidecarOfCompletedPod: the sidecar ends when the app container has completed.
func TestSidecarOfCompletedPod(t *testing.T) {
	n := newNode(t)
	n.writePod("job", `
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers: [{name: side, image: SHELL, restartPolicy: Always, command: [sleep, "1000"]}]
  containers: [{name: main, image: SHELL, command: [sh, -c, "sleep 1"]}]
`)
	pod := n.until("job", wantPhase(v1.PodSucceeded))
	testutil.Assert(t, status(pod, "side").State.Terminated != nil, "the sidecar still runs: %s", states(pod))
}

// TestGracefulTermination: the kubelet runs the preStop hook, then sends SIGTERM, and waits for the container.
func TestGracefulTermination(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 20
  volumes: [{name: work, hostPath: {path: SCRATCH}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'echo TERM >> /scratch/order; sleep 1; echo end >> /scratch/order; exit 0' TERM; echo start >> /scratch/order; while :; do sleep 0.1; done"]
    lifecycle:
      postStart: {exec: {command: [sh, -c, "echo postStart >> /scratch/started"]}}
      preStop: {exec: {command: [sh, -c, "sleep 1; echo preStop >> /scratch/order"]}}
    volumeMounts: [{name: work, mountPath: /scratch}]
`)
	n.ready("pod")
	n.scratchHas("order", "start\n")
	n.scratchHas("started", "postStart\n")
	n.end("pod")
	n.scratchHas("order", "start\npreStop\nTERM\nend\n")
}

// TestSidecarPreStop: a sidecar's preStop hook runs as soon as the pod ends. The app container ends after the hook.
// Then the sidecar gets SIGTERM.
func TestSidecarPreStop(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  terminationGracePeriodSeconds: 20
  volumes: [{name: work, hostPath: {path: SCRATCH}}]
  initContainers:
  - name: side
    image: SHELL
    restartPolicy: Always
    command: [sh, -c, "trap 'echo side TERM >> /scratch/order; exit 0' TERM; while :; do sleep 0.1; done"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "echo side preStop >> /scratch/order"]}}}
    volumeMounts: [{name: work, mountPath: /scratch}]
  containers:
  - name: main
    image: SHELL
    command:
    - sh
    - -c
    - |
      trap 'until grep -q preStop /scratch/order; do sleep 0.1; done; echo main end >> /scratch/order; exit 0' TERM
      echo start >> /scratch/order
      while :; do sleep 0.1; done
    volumeMounts: [{name: work, mountPath: /scratch}]
`)
	n.ready("pod")
	n.scratchHas("order", "start\n")
	n.end("pod")
	n.scratchHas("order", "start\nside preStop\nmain end\nside TERM\n")
}

// TestStubbornContainer: a container that ignores SIGTERM is killed when its grace period is over.
func TestStubbornContainer(t *testing.T) {
	n := newNode(t)
	n.write("pod.yaml",
		strings.Replace(simple("pod", "trap '' TERM; while :; do sleep 0.1; done"), "PeriodSeconds: 1",
			"PeriodSeconds: 2", 1))
	n.ready("pod")
	began := time.Now()
	n.end("pod")
	took := time.Since(began)
	testutil.Assert(t, took >= 2*time.Second, "it took %v, with a grace period of 2s", took)
	speed.Check(t, "the end with a grace period of 2s", took, 15*time.Second)
}

// TestHooks: a pod with an httpGet and a sleep hook starts and ends. The answer to an httpGet hook does not matter. A
// container restarts if its postStart hook fails.
func TestHooks(t *testing.T) {
	n := newNode(t)
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	testutil.Must(t, err)
	n.writePod("good", `
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: HELLO
    ports: [{name: http, containerPort: 8080}]
    lifecycle:
      postStart: {sleep: {seconds: 1}}
      preStop: {httpGet: {port: http, path: /bye}}
  - name: other
    image: SHELL
    command: [sleep, "1000"]
    lifecycle: {preStop: {httpGet: {host: 127.0.0.1, port: `+port+`, path: bye}}}
`)
	n.writePod("bad", `
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sleep, "1000"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo no luck >&2; exit 5"]}}}
`)
	n.ready("good")
	n.end("good")
	select {
	case path := <-asked:
		testutil.Assert(t, path == "/bye", "the preStop hook asked for %s", path)
	default:
		t.Error("the preStop hook was not called")
	}
	failed := n.event("bad", "FailedPostStartHook")
	testutil.Assert(t, strings.Contains(failed.Message, "no luck"), "message %q", failed.Message)
	n.restarted("bad", "main", 1)
}

// TestRollingEdit edits a manifest. The old pod ends before the new one starts.
func TestRollingEdit(t *testing.T) {
	n := newNode(t)
	command := "trap 'sleep 1; echo %[1]s ends >> /scratch/order; exit 0' TERM; echo %[1]s starts >> " +
		"/scratch/order; while :; do sleep 0.1; done"
	manifest := func(version string) string {
		text := strings.Replace(simple("pod", fmt.Sprintf(command, version)), "PeriodSeconds: 1", "PeriodSeconds: 10",
			1)
		return strings.Replace(text, "containers:\n  - {",
			"volumes: [{name: work, hostPath: {path: SCRATCH}}]\n  containers:\n  - {volumeMounts: [{name: work, "+
				"mountPath: /scratch}], ", 1)
	}
	n.write("pod.yaml", manifest("v1"))
	first := n.ready("pod")
	n.scratchHas("order", "v1 starts\n")
	n.write("pod.yaml", manifest("v2"))
	n.scratchHas("order", "v1 starts\nv1 ends\nv2 starts\n")
	n.replaced(first)
}

// TestImageEdit edits the image of a pod that keeps its UID. Only the container with that image is replaced.
func TestImageEdit(t *testing.T) {
	n := newNode(t)
	manifest := `
apiVersion: v1
kind: Pod
metadata: {name: pod, uid: UID}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: edited, image: IMAGE, command: [sleep, "1000"]}
  - {name: other, image: SHELL, command: [sleep, "1000"]}
`
	write := func(image string) {
		n.write("pod.yaml", strings.NewReplacer("IMAGE", n.env.Image(image), "UID", n.name).Replace(manifest))
	}
	write("test/multi:a")
	first := n.ready("pod")
	write("test/multi:b")
	n.restarted("pod", "edited", 1)
	second := n.ready("pod")
	testutil.Assert(t, id(first, "other") == id(second, "other") && first.Status.PodIP == second.Status.PodIP,
		"more than one container was replaced:\n%s\n%s", states(first), states(second))
}

// TestChangedWhileStarting edits a manifest repeatedly while its pod starts. The last version runs.
func TestChangedWhileStarting(t *testing.T) {
	n := newNode(t)
	for i := range 8 {
		n.write("pod.yaml", simple("pod", fmt.Sprintf("echo version %d; sleep 1000", i)))
		time.Sleep(150 * time.Millisecond)
	}
	eventually(t, "the last version runs alone", func() error {
		pods, err := n.pods()
		if err != nil {
			return err
		}
		if len(pods) != 1 {
			return fmt.Errorf("%d pods", len(pods))
		}
		if err := wantReady(&pods[0], v1.ConditionTrue); err != nil {
			return err
		}
		if text := n.log(&pods[0], "main", 0); text != "version 7\n" {
			return fmt.Errorf("it logs %q", text)
		}
		return nil
	})
}

// TestKilledBehindItsBack kills a container and then the sandbox with the docker command. On containerd it kills the
// process.
func TestKilledBehindItsBack(t *testing.T) {
	n := newNode(t)
	pod := n.run("pod", "sleep 1000")
	n.killContainers(id(pod, "main"))
	n.restarted("pod", "main", 1)
	after := n.ready("pod")
	last := status(after, "main").LastTerminationState.Terminated
	testutil.Assert(t, last != nil && last.ExitCode == 137, "last state %s", states(after))
	testutil.Assert(t, after.Status.PodIP == pod.Status.PodIP,
		"the pod's address changed from %s to %s when a container was killed", pod.Status.PodIP, after.Status.PodIP)
	n.endSandboxes(pod)
	n.restarted("pod", "main", 2)
	n.ready("pod")
}

// TestOldSandboxesAreCollected: two of a pod's three sandboxes stay. They are the newest one, and the one with the
// container's last dead attempt.
func TestOldSandboxesAreCollected(t *testing.T) {
	n := newNode(t)
	pod := n.run("pod", "sleep 1000")
	for times := range int32(2) {
		n.endSandboxes(pod)
		n.restarted("pod", "main", times+1)
		n.ready("pod")
	}
	eventually(t, "collected", func() error {
		if count := len(n.sandboxes(pod, true)); count != 2 {
			return fmt.Errorf("%d sandboxes, want 2", count)
		}
		return nil
	})
}

// TestLogRotation: the kubelet rotates the log of a container that writes much. It compresses old logs and keeps a
// limited number of them.
func TestLogRotation(t *testing.T) {
	n := newNode(t, "--container-log-max-size", "20000", "--container-log-max-files", "4",
		"--container-log-monitor-interval", "500ms")
	pod := n.run("pod", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.005; done")
	log := filepath.Join(model.PodLogDirectory(n.logs, pod), model.ContainerLogPath("main", 0))
	first := ""
	eventually(t, "rotated and compressed, the first one removed", func() error {
		files, err := filepath.Glob(log + ".*")
		if err != nil || len(files) == 0 {
			return cmp.Or(err, errors.New("no rotated file"))
		}
		first = cmp.Or(first, strings.TrimSuffix(files[0], ".gz"))
		isFirst := func(file string) bool { return strings.HasPrefix(file, first) }
		isCompressed := func(file string) bool { return strings.HasSuffix(file, ".gz") }
		if slices.ContainsFunc(files, isFirst) || !slices.ContainsFunc(files, isCompressed) || len(files) > 3 {
			return fmt.Errorf("%v, want a compressed file, at most 3 files, and %s removed", files, first)
		}
		return nil
	})
	before := n.log(pod, "main", 0)
	eventually(t, "the new log grows", func() error {
		if n.log(pod, "main", 0) == before {
			return errors.New("it does not")
		}
		return nil
	})
	eventually(t, "the log is there", func() error { // between the rename and the reopening no log exists
		info, err := os.Stat(log)
		if err == nil && info.Size() > 200_000 {
			t.Errorf("the log has %d bytes", info.Size())
		}
		return err
	})
}

// TestActiveDeadline: a pod fails if it runs longer than its activeDeadlineSeconds.
func TestActiveDeadline(t *testing.T) {
	n := newNode(t)
	n.run("pod", "sleep 1000", "activeDeadlineSeconds: 3")
	pod := n.until("pod", wantPhase(v1.PodFailed))
	testutil.Assert(t, pod.Status.Reason == "DeadlineExceeded" && status(pod, "main").State.Terminated != nil,
		"reason %q, %s", pod.Status.Reason, states(pod))
}
