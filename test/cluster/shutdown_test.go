package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/test/login1"
)

// nodeShutsDown shows that pods end with grace when logind announces a shutdown, critical ones last, and that the
// shutdown waits for them. The node takes pods again when the shutdown is cancelled.
func nodeShutsDown(s *scene) {
	machine := login1.Start(s, time.Hour)
	s.node.restart(s.T, settings{
		flags:   []string{"--shutdown-grace-period", "10m", "--shutdown-grace-period-critical-pods", "5m"},
		config:  "shutdownGracePeriod: 10m\nshutdownGracePeriodCriticalPods: 5m\n",
		environ: []string{"DBUS_SYSTEM_BUS_ADDRESS=" + machine.Address},
	})
	s.leaseRenewed()
	s.eventually("the kubelet delays shutdowns", func() error {
		if len(machine.Locks()) == 0 {
			return errors.New("it has no inhibitor")
		}
		return nil
	})
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  priorityClassName: %s
  terminationGracePeriodSeconds: 60
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done"]
---`
	s.apply(fmt.Sprintf(pod, "plain", `""`) + fmt.Sprintf(pod, "critical", "system-node-critical"))
	s.ready("pod/plain", "pod/critical")
	released := machine.PrepareForShutdown(true)
	plain, critical := s.endedByShutdown("plain"), s.endedByShutdown("critical")
	if earlier := critical.Add(-2 * time.Second); plain.After(earlier) {
		s.Errorf("the plain pod ended at %v, after the critical pod began to end; the critical pod ended at %v", plain,
			critical)
	}
	select {
	case <-released:
	case <-time.After(patience):
		s.Error("the shutdown is delayed although all pods have ended")
	}
	s.kubectl("wait", "--for=condition=Ready=false", "node/"+s.node.name, waitLimit)
	machine.PrepareForShutdown(false)
	s.kubectl("wait", "--for=condition=Ready", "node/"+s.node.name, waitLimit)
	s.kubectl("delete", "pod", "plain", "critical")
	s.apply(fmt.Sprintf(pod, "later", `""`))
	s.ready("pod/later")
	s.node.restart(s.T, settings{})
}

// endedByShutdown waits until a pod's container has ended with exit code 0, and returns the time of the end. The
// kubelet core reports the pod as failed. The real kubelet reports it as succeeded, because of the exit code.
func (s *scene) endedByShutdown(name string) time.Time {
	s.Helper()
	var ended time.Time
	s.until(name, func(pod *v1.Pod) error {
		status, err := container(pod)
		if err != nil {
			return err
		}
		state := status.State.Terminated
		if state == nil || state.ExitCode != 0 ||
			pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			return fmt.Errorf("%s %s, %+v", pod.Status.Phase, pod.Status.Reason, status.State)
		}
		disrupted := func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Reason == v1.PodReasonTerminationByKubelet
		}
		if !slices.ContainsFunc(pod.Status.Conditions, disrupted) {
			return fmt.Errorf("conditions %+v", pod.Status.Conditions)
		}
		ended = state.FinishedAt.Time
		return nil
	})
	return ended
}
