package kubelet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestEphemeralContainer debugs a running pod. The ephemeral container joins the pod and sees the processes of its
// target. No other container restarts. A new kubelet starts no ephemeral container again.
func TestEphemeralContainer(t *testing.T) {
	n := newClusterNode(t)
	pod := n.bind(`
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "sleep 12345"]}
`)
	before := n.showsReady(pod)
	debugger := func(name, script string) {
		t.Helper()
		n.change(pod, func(now *v1.Pod) {
			now.Spec.EphemeralContainers = append(now.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{
					Name: name, Image: n.env.Image(shell), ImagePullPolicy: v1.PullIfNotPresent,
					Command:                  []string{"sh", "-c", script},
					TerminationMessagePath:   "/dev/termination-log",
					TerminationMessagePolicy: v1.TerminationMessageReadFile,
				},
				TargetContainerName: "main",
			})
		})
	}
	debugger("looks", "ps; hostname; echo done")
	ended := func(now *v1.Pod) error {
		for _, shown := range now.Status.EphemeralContainerStatuses {
			if end := shown.State.Terminated; shown.Name == "looks" && end != nil && end.ExitCode == 0 {
				return nil
			}
		}
		return fmt.Errorf("ephemeral containers %+v", now.Status.EphemeralContainerStatuses)
	}
	n.shows(pod, "the first has ended", ended)
	text := n.log(before, "looks", 0)
	testutil.Assert(t, strings.Contains(text, "sleep 12345") && strings.Contains(text, pod.Name+"\n"),
		"it did not see both its target's processes and the pod's host name:\n%s", text)
	debugger("stays", "sleep 1000")
	n.shows(pod, "the second runs", func(now *v1.Pod) error {
		if len(now.Status.EphemeralContainerStatuses) != 2 ||
			now.Status.EphemeralContainerStatuses[1].State.Running == nil {
			return fmt.Errorf("ephemeral containers %+v", now.Status.EphemeralContainerStatuses)
		}
		return wantReady(now, v1.ConditionTrue)
	})
	n.kill()
	n.start()
	stays(t, "nothing is started again", 3*time.Second, func() error {
		now := n.api.Object(pod).(*v1.Pod)
		if id(now, "main") != id(before, "main") || status(now, "main").RestartCount != 0 ||
			now.Status.EphemeralContainerStatuses[0].RestartCount != 0 {
			return fmt.Errorf("restarted: %+v", now.Status)
		}
		return ended(now)
	})
	n.end(pod)
}

// TestContainerRestartRules restarts a container after an exit code that its rules name, and after no other. The pod's
// restartPolicy is Never.
func TestContainerRestartRules(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  restartPolicy: Never
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: again
    image: SHELL
    command: [sh, -c, "test -e /data/ran && exit 0; touch /data/ran; exit 42"]
    volumeMounts: [{name: data, mountPath: /data}]
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [41, 42]}}]
  - name: once
    image: SHELL
    command: [sh, -c, "exit 3"]
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: NotIn, values: [3]}}]
`)
	pod := n.until("pod", wantPhase(v1.PodFailed))
	again, once := status(pod, "again"), status(pod, "once")
	testutil.Assert(t, again.RestartCount == 1 && again.State.Terminated.ExitCode == 0 && once.RestartCount == 0 &&
		once.State.Terminated.ExitCode == 3, "statuses %s", states(pod))
}

// TestRestartAllContainers restarts all containers of a pod when one ends with the exit code of a rule. The init
// container and the ended container start again, too. The sandbox and the volumes stay.
func TestRestartAllContainers(t *testing.T) {
	n := newNode(t)
	n.writePod("pod", `
  restartPolicy: Never
  terminationGracePeriodSeconds: 3600
  volumes: [{name: data, emptyDir: {}}]
  initContainers:
  - name: first
    image: SHELL
    command: [sh, -c, "echo run >> /data/runs"]
    volumeMounts: [{name: data, mountPath: /data}]
  containers:
  - name: asks
    image: SHELL
    command: [sh, -c, "until [ -e /data/ended ]; do sleep 0.1; done; wc -l < /data/runs; [ $(wc -l < /data/runs) = 2 ] && sleep 1000; exit 42"]
    volumeMounts: [{name: data, mountPath: /data}]
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  - name: runs
    image: SHELL
    command: [sh, -c, "trap '' TERM; while :; do sleep 0.1; done"]
  - name: ended
    image: SHELL
    command: [sh, -c, "touch /data/ended"]
    volumeMounts: [{name: data, mountPath: /data}]
`)
	again := func(pod *v1.Pod) error {
		for _, name := range []string{"first", "asks", "runs", "ended"} {
			if status(pod, name).RestartCount != 1 {
				return fmt.Errorf("%s: %s", name, states(pod))
			}
		}
		if status(pod, "runs").State.Running == nil || status(pod, "asks").State.Running == nil {
			return errors.New(states(pod))
		}
		return nil
	}
	pod := n.until("pod", again)
	n.logHas(pod, "asks", 0, "1\n")
	n.logHas(pod, "asks", 1, "2\n")
	found := n.sandboxes(pod, true)
	testutil.Assert(t, len(found) == 1, "sandboxes %v, want the one that there was", found)
	before := status(pod, "asks").LastTerminationState.Terminated
	testutil.Assert(t, before != nil && before.Reason == "RestartingAllContainers", "it ended before as %+v", before)
	if found := conditionOf(pod, v1.AllContainersRestarting); found == nil || found.Status != v1.ConditionFalse ||
		pod.Status.Phase != v1.PodRunning {
		t.Errorf("phase %s, condition %+v", pod.Status.Phase, found)
	}
}
