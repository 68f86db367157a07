package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// noMemory gives the node a pod that it cannot take, past the scheduler.
func noMemory(s *scene) {
	s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  nodeName: NODENAME
  containers: [{name: main, image: SHELL, command: [sleep, "3600"], resources: {requests: {memory: 1000Ti}}}]
`)
	s.until("big", func(pod *v1.Pod) error {
		if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "OutOfmemory" || pod.Status.Message == "" {
			return fmt.Errorf("phase %s, reason %q, message %q", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
		}
		return nil
	})
	s.nothingRuns()
}
