package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// readiness shows that a service has a pod among its endpoints while the pod is ready.
func readiness(s *scene) {
	s.apply(`
apiVersion: v1
kind: Service
metadata: {name: gate}
spec: {selector: {app: gate}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gate, labels: {app: gate}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sleep, "3600"]
    readinessProbe: {exec: {command: [test, -f, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
`)
	s.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/gate", waitLimit)
	s.endpointIs("false")
	s.event("gate", "Unhealthy")
	s.kubectl("exec", "gate", "--", "touch", "/tmp/ready")
	s.ready("pod/gate")
	s.endpointIs("true")
	s.kubectl("exec", "gate", "--", "rm", "/tmp/ready")
	s.kubectl("wait", "--for=condition=Ready=false", "pod/gate", waitLimit)
	s.endpointIs("false")
	s.notRestarted("gate")
}

// endpointIs waits until the condition ready of the service's only endpoint is want, "true" or "false".
func (s *scene) endpointIs(want string) {
	s.Helper()
	s.prints(want, "get", "endpointslices", "-l", "kubernetes.io/service-name=gate",
		"-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
}

func liveness(s *scene) {
	s.applyPod("fragile", `
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo begin; touch /tmp/alive; sleep 3600"]
    startupProbe: {exec: {command: [test, -f, /tmp/alive]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 60}
    livenessProbe: {exec: {command: [test, -f, /tmp/alive]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: solid}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: HELLO
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 60}
    livenessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
`)
	s.ready("pod/fragile", "pod/solid")
	before, err := container(s.pod("fragile"))
	testutil.Must(s, err)
	s.kubectl("exec", "fragile", "--", "rm", "/tmp/alive")
	s.until("fragile", func(pod *v1.Pod) error {
		now, err := container(pod)
		if err != nil {
			return err
		}
		if now.RestartCount != 1 || now.ContainerID == before.ContainerID || !now.Ready {
			return fmt.Errorf("restarted %d times, ready %v", now.RestartCount, now.Ready)
		}
		if now.LastTerminationState.Terminated == nil {
			return fmt.Errorf("the last state is %+v", now.LastTerminationState)
		}
		return nil
	})
	s.event("fragile", "Killing")
	testutil.Equal(s, s.kubectl("logs", "--previous", "fragile"), "begin", "the log of the previous container")
	s.notRestarted("solid")
}
