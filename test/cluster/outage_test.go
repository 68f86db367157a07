package cluster

import (
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// outage is how long the API server is away.
const outage = time.Minute

// apiServerAway ends the API server for a minute. The pods run on, and the node restarts a container that crashes. When
// the server is back, the node reports the restart and runs new pods.
func apiServerAway(s *scene) {
	before := s.steadyPods()
	s.applyPod("mortal", `
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: SHELL, command: [sh, -c, "until test -f /tmp/end; do sleep 0.1; done; exit 5"]}]
`)
	s.ready("pod/mortal")
	mortal, err := container(s.pod("mortal"))
	testutil.Must(s, err)
	s.plane.KillAPIServer()
	_, id, _ := strings.Cut(mortal.ContainerID, "://")
	_, _, err = s.node.server.Runtime.ExecSync(s.Context(), id, []string{"touch", "/tmp/end"}, patience)
	testutil.Must(s, err)
	for end := time.Now().Add(outage); time.Now().Before(end); time.Sleep(time.Second) {
		s.sameContainers(before)
		s.sameAnswer()
	}
	returned := time.Now()
	testutil.Must(s, s.plane.StartAPIServer(s.Context()))
	s.nodeIsBack()
	s.until("mortal", func(pod *v1.Pod) error {
		status, err := container(pod)
		if err != nil {
			return err
		}
		last := status.LastTerminationState.Terminated
		if status.RestartCount != 1 || !status.Ready || status.State.Running == nil || last == nil ||
			last.ExitCode != 5 {
			return fmt.Errorf("%+v", status)
		}
		if back := status.State.Running.StartedAt; !back.Time.Before(returned) {
			return fmt.Errorf("restarted at %v, only after the server was back", back)
		}
		return nil
	})
	s.takesOrders()
	s.sameContainers(before)
}

// kubeletKilled ends the kubelet as a crash would. A pod that is deleted meanwhile is gone once the kubelet is back.
func kubeletKilled(s *scene) {
	before := s.steadyPods()
	s.applyPod("doomed", `
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: SHELL, command: [sleep, "3600"]}]
`)
	s.ready("pod/doomed")
	s.node.process.Kill()
	s.kubectl("delete", "pod", "doomed", "--wait=false")
	s.sameContainers(before)
	s.sameAnswer()
	s.node.start(s.T)
	s.kubectl("wait", "--for=delete", "pod/doomed", waitLimit)
	s.nodeIsBack()
	s.takesOrders()
	s.sameContainers(before)
}

// criadapterKilled ends criadapter as a crash would.
func criadapterKilled(s *scene) {
	before := s.steadyPods()
	testutil.Must(s, s.node.restartServer(s.Context()))
	s.sameAnswer()
	s.takesOrders()
	s.nodeIsBack()
	s.sameContainers(before)
}

// steadyPods starts pods that must run on undisturbed, and returns their containers' ids and attempts by pod name.
func (s *scene) steadyPods() map[string]string {
	s.Helper()
	s.apply(web(2) + `
---
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sleep, "3600"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 2, timeoutSeconds: 30}
`)
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	s.ready("pod/probed")
	containers := s.running()
	testutil.Require(s, len(containers) == 3, "%d containers run, want 3: %v", len(containers), containers)
	return containers
}

// running lists the running containers of the steady pods, from the runtime.
func (s *scene) running() map[string]string {
	s.Helper()
	list, err := s.node.server.Runtime.ListContainers(s.Context(), &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{model.LabelPodNamespace: s.namespace},
	})
	testutil.Must(s, err)
	containers := make(map[string]string)
	for _, one := range list {
		pod := one.GetLabels()[model.LabelPodName]
		if pod == "probed" || strings.HasPrefix(pod, "web-") {
			containers[pod] = fmt.Sprintf("%s, attempt %d", one.GetId(), one.GetMetadata().GetAttempt())
		}
	}
	return containers
}

// sameContainers checks that the containers in before still run, without a restart. Containers of other pods may have
// been added.
func (s *scene) sameContainers(before map[string]string) {
	s.Helper()
	now := s.running()
	maps.DeleteFunc(now, func(pod, _ string) bool { return before[pod] == "" })
	testutil.Require(s, maps.Equal(before, now), "the containers were %v and are %v", before, now)
}

// sameAnswer checks that each web pod still answers at its address.
func (s *scene) sameAnswer() {
	s.Helper()
	addresses := s.addresses()
	testutil.Require(s, len(addresses) > 0, "no web pod has a ready sandbox")
	for pod, address := range addresses {
		got, err := httpGet(s.Context(), address+":8080")
		testutil.Assert(s, err == nil && got == "hello from "+pod+"\n", "%s answers %q, %v", pod, got, err)
	}
}

// addresses returns the addresses of the web pods, from the runtime.
func (s *scene) addresses() map[string]string {
	s.Helper()
	sandboxes, err := s.node.server.Runtime.ListPodSandbox(s.Context(), &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{model.LabelPodNamespace: s.namespace},
	})
	testutil.Must(s, err)
	addresses := make(map[string]string)
	for _, sandbox := range sandboxes {
		if pod := sandbox.GetMetadata().GetName(); strings.HasPrefix(pod, "web-") {
			status, err := s.node.server.Runtime.PodSandboxStatus(s.Context(), sandbox.GetId(), false)
			testutil.Must(s, err)
			addresses[pod] = status.GetStatus().GetNetwork().GetIp()
		}
	}
	return addresses
}

// nodeIsBack waits until the node has renewed its lease and is Ready. Its steady pods must be Ready without a restart.
func (s *scene) nodeIsBack() {
	s.Helper()
	s.leaseRenewed()
	s.kubectl("wait", "--for=condition=Ready", "node/"+s.node.name, waitLimit)
	s.ready("pod/probed")
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	for _, pod := range append(s.pods("app=web"), *s.pod("probed")) {
		if status, err := container(&pod); err != nil || status.RestartCount != 0 {
			s.Errorf("%s: %+v, %v", pod.Name, status, err)
		}
	}
}

// takesOrders checks that the node runs a new pod and reports its status.
func (s *scene) takesOrders() {
	s.Helper()
	s.kubectl("scale", "deployment/web", "--replicas=3")
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	s.eventually("three pods are ready", func() error {
		ready := 0
		for _, pod := range s.pods("app=web") {
			if model.Ready(&pod) {
				ready++
			}
		}
		if ready != 3 {
			return fmt.Errorf("%d are", ready)
		}
		return nil
	})
}

// leaseRenewed waits for the next renewal of the node's lease.
func (s *scene) leaseRenewed() {
	s.Helper()
	began := time.Now()
	s.eventually("the node renews its lease", func() error {
		lease, err := s.coordination.Leases("kube-node-lease").Get(s.Context(), s.node.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if renewed := lease.Spec.RenewTime; renewed == nil || !renewed.After(began) {
			return fmt.Errorf("last at %v", renewed)
		}
		return nil
	})
}
