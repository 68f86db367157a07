package kubelet

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/login1"
)

// TestNodeShutdown ends pods when logind announces a shutdown, critical ones last. The shutdown goes on when all pods
// have ended. From the announcement until the shutdown is cancelled, the node is not ready and takes no pods. The bus
// is the real dbus-daemon.
func TestNodeShutdown(t *testing.T) {
	n := prepareClusterNode(t, "--shutdown-grace-period", "10m", "--shutdown-grace-period-critical-pods", "5m")
	machine := login1.Start(t, time.Hour)
	n.environment = []string{"DBUS_SYSTEM_BUS_ADDRESS=" + machine.Address}
	n.start()
	// Each pod writes a file when it gets SIGTERM, and ends when the test calls let.
	const text = `
metadata: {name: NAME}
spec:
  priority: PRIORITY
  terminationGracePeriodSeconds: 240
  volumes: [{name: host, hostPath: {path: SCRATCH}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'echo ends > /host/NAME; until [ -e /host/let-NAME ]; do sleep 0.1; done; exit 0' TERM; while :; do sleep 0.1; done"]
    volumeMounts: [{name: host, mountPath: /host}]
`
	pod := func(name, priority string) *v1.Pod {
		return n.bind(strings.NewReplacer("NAME", name, "PRIORITY", priority).Replace(text))
	}
	plain, critical := pod("plain", "0"), pod("critical", "2000000000")
	n.showsReady(plain)
	n.showsReady(critical)
	n.says("shutdowns of this machine are delayed")
	released := machine.PrepareForShutdown(true)
	n.scratchHas("plain", "ends")
	n.hasCondition(v1.NodeReady, v1.ConditionFalse, "KubeletNotReady")
	refused := pod("refused", "2000000000")
	n.shows(refused, "a pod is refused while the node goes down", func(now *v1.Pod) error {
		if now.Status.Phase != v1.PodFailed || now.Status.Reason != "NodeShutdown" ||
			!strings.Contains(now.Status.Message, "Pod was rejected as the node is shutting down.") {
			return fmt.Errorf("%s %s: %s", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return nil
	})
	testutil.Gone(t, n.scratch()+"/critical", "the critical pod is ended before the other has ended")
	n.let("plain")
	n.shows(plain, "the plain pod has ended", wantTerminated)
	n.scratchHas("critical", "ends")
	select {
	case <-released:
		t.Error("the shutdown goes on although a pod runs")
	default:
	}
	n.let("critical")
	n.shows(critical, "the critical pod has ended", wantTerminated)
	testutil.Receive(t, released, "the shutdown is delayed although all pods have ended")
	machine.PrepareForShutdown(false)
	n.hasCondition(v1.NodeReady, v1.ConditionTrue, "KubeletReady")
	n.showsReady(pod("later", "0"))
	n.let("later")
}

// let allows a pod of TestNodeShutdown to end.
func (n *node) let(name string) {
	n.t.Helper()
	testutil.Must(n.t, os.WriteFile(n.scratch()+"/let-"+name, nil, 0o644))
}

// says waits for a line of the kubelet's log.
func (n *node) says(text string) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, text, func() error {
		output, err := os.ReadFile(n.output)
		if err == nil && !strings.Contains(string(output), text) {
			err = errors.New("the log does not say so")
		}
		return err
	})
}

// wantTerminated fails unless a pod has the status of a pod that a shutdown ended: it failed, and its container exited
// with 0.
func wantTerminated(pod *v1.Pod) error {
	state := status(pod, "main").State.Terminated
	if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Terminated" || state == nil || state.ExitCode != 0 ||
		pod.Status.Message != "Pod was terminated in response to imminent node shutdown." {
		return fmt.Errorf("%s %s: %s, %+v", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, state)
	}
	if target := conditionOf(pod, v1.DisruptionTarget); target == nil || target.Reason != "TerminationByKubelet" {
		return fmt.Errorf("condition %+v", target)
	}
	return nil
}
