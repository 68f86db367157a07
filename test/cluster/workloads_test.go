package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// web is a Deployment of the HTTP service.
func web(replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: hello
        image: HELLO
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`, replicas)
}

func nodeRegisters(s *scene) {
	node, err := s.nodeObject(s.Context())
	testutil.Must(s, err)
	if ip := node.Status.Addresses; !slices.ContainsFunc(ip, func(a v1.NodeAddress) bool {
		return a.Type == v1.NodeInternalIP && a.Address != ""
	}) {
		s.Errorf("addresses %v lack an InternalIP", ip)
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods,
		v1.ResourceEphemeralStorage} {
		capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
		if capacity.IsZero() || allocatable.IsZero() || allocatable.Cmp(capacity) > 0 {
			s.Errorf("%s: capacity %v, allocatable %v", name, capacity.String(), allocatable.String())
		}
	}
	for _, condition := range node.Status.Conditions {
		want := v1.ConditionFalse
		if condition.Type == v1.NodeReady {
			want = v1.ConditionTrue
		}
		testutil.Assert(s, condition.Status == want, "condition %s is %s: %s", condition.Type, condition.Status,
			condition.Message)
	}
	info := node.Status.NodeInfo
	_, version, ok := strings.Cut(info.ContainerRuntimeVersion, "://")
	testutil.Assert(s, ok && version != "", "container runtime version %q", info.ContainerRuntimeVersion)
	if info.KernelVersion == "" || info.OSImage == "" || info.Architecture == "" || info.OperatingSystem != "linux" {
		s.Errorf("node info %+v", info)
	}
	testutil.Assert(s, node.Labels[v1.LabelHostname] == s.node.name && node.Labels[v1.LabelOSStable] == "linux",
		"labels %v", node.Labels)
	s.leaseRenewed()
}

func deployment(s *scene) {
	s.apply(web(3))
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	first := s.pods("app=web")
	testutil.Require(s, len(first) == 3, "%d pods, want 3", len(first))
	addresses := make(map[string]bool)
	for i := range first {
		pod := &first[i]
		addresses[pod.Status.PodIP] = true
		testutil.Assert(s, pod.Spec.NodeName == s.node.name, "%s is on %q", pod.Name, pod.Spec.NodeName)
		text, err := httpGet(s.Context(), pod.Status.PodIP+":8080")
		testutil.Assert(s, err == nil && text == "hello from "+pod.Name+"\n", "%s answers %q, %v", pod.Name, text,
			err)
	}
	testutil.Assert(s, len(addresses) == 3, "addresses %v, want three", addresses)
	for _, replicas := range []int{5, 2} {
		s.kubectl("scale", "deployment/web", fmt.Sprintf("--replicas=%d", replicas))
		s.kubectl("rollout", "status", "deployment/web", waitLimit)
		s.eventually(fmt.Sprintf("scaled to %d", replicas), func() error {
			if pods := s.pods("app=web"); len(pods) != replicas {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
	}
	before := uids(s.pods("app=web"))
	s.kubectl("set", "env", "deployment/web", "GENERATION=2")
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	s.eventually("rolled", func() error {
		pods := s.pods("app=web")
		for i := range pods {
			if slices.Contains(before, string(pods[i].UID)) {
				return fmt.Errorf("%s is of the old generation", pods[i].Name)
			}
		}
		if len(pods) != 2 {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	})
	s.kubectl("delete", "deployment/web", "--wait=false")
	s.kubectl("wait", "--for=delete", "pod", "-l", "app=web", waitLimit)
	s.nothingRuns()
}

func job(s *scene) {
	s.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: good}
spec:
  completions: 3
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: SHELL, command: [sh, -c, "echo done"]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: SHELL, command: [sh, -c, "echo broken > /dev/termination-log; exit 3"]}]
`)
	s.kubectl("wait", "--for=condition=Complete", "job/good", waitLimit)
	s.kubectl("wait", "--for=condition=Failed", "job/bad", waitLimit)
	good, bad := s.pods("job-name=good"), s.pods("job-name=bad")
	testutil.Require(s, len(good) == 3 && len(bad) == 1, "%d and %d pods, want 3 and 1", len(good), len(bad))
	for i := range good {
		if got := s.kubectl("logs", good[i].Name); good[i].Status.Phase != v1.PodSucceeded || got != "done" {
			s.Errorf("%s is %s and said %q", good[i].Name, good[i].Status.Phase, got)
		}
	}
	ended := bad[0].Status.ContainerStatuses[0].State.Terminated
	if bad[0].Status.Phase != v1.PodFailed || ended == nil || ended.ExitCode != 3 || ended.Message != "broken\n" {
		s.Errorf("%s is %s, its container %+v", bad[0].Name, bad[0].Status.Phase, ended)
	}
}

func daemonSet(s *scene) {
	s.apply(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 1
      hostNetwork: true
      containers: [{name: agent, image: SHELL, command: [sleep, "3600"]}]
`)
	s.kubectl("rollout", "status", "daemonset/agent", waitLimit)
	first := s.pods("app=agent")
	testutil.Require(s, len(first) == 1, "%d pods, want one for the node", len(first))
	testutil.Assert(s, first[0].Status.PodIP == first[0].Status.HostIP, "on the node's network with address %s, not %s",
		first[0].Status.PodIP, first[0].Status.HostIP)
	s.kubectl("set", "env", "daemonset/agent", "GENERATION=2")
	s.kubectl("rollout", "status", "daemonset/agent", waitLimit)
	// The controller makes the new pod when the old one has ended. The API server deletes the old one a moment later.
	s.eventually("the new pod alone", func() error {
		second := s.pods("app=agent")
		if len(second) != 1 || second[0].UID == first[0].UID {
			return fmt.Errorf("%d pods after the roll-out of %s", len(second), first[0].Name)
		}
		return nil
	})
	s.kubectl("delete", "daemonset/agent", "--wait=false")
	s.kubectl("wait", "--for=delete", "pod", "-l", "app=agent", waitLimit)
	s.nothingRuns()
}

// deletionWithGrace deletes a pod whose container ends by itself within the grace period, and a pod whose container
// ignores the signal.
func deletionWithGrace(s *scene) {
	s.applyPod("polite", `
  terminationGracePeriodSeconds: 60
  volumes: [{name: host, hostPath: {path: `+s.node.server.Dir+`}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "trap 'sleep 2; echo farewell > /host/farewell; exit 0' TERM; while true; do sleep 0.1; done"]
    volumeMounts: [{name: host, mountPath: /host}]
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: main, image: SHELL, command: [sh, -c, "trap '' TERM; while true; do sleep 0.1; done"]}]
`)
	s.ready("pod/polite", "pod/stubborn")
	began := time.Now()
	s.kubectl("delete", "pod", "polite", "stubborn", "--wait=false")
	s.kubectl("wait", "--for=delete", "pod/polite", "pod/stubborn", waitLimit)
	took := time.Since(began)
	testutil.Assert(s, took >= 2*time.Second, "gone after %v, before the containers can have ended", took)
	s.fileHas("farewell", "farewell\n")
	s.nothingRuns()
}

// nothingRuns waits until the runtime runs nothing for the namespace. Garbage collection removes the rest later.
func (s *scene) nothingRuns() {
	s.Helper()
	s.eventually("nothing runs", func() error {
		sandboxes, err := s.node.server.Runtime.ListPodSandbox(s.Context(), &runtimeapi.PodSandboxFilter{
			State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
			LabelSelector: map[string]string{model.LabelPodNamespace: s.namespace},
		})
		if err != nil {
			return err
		}
		if len(sandboxes) > 0 {
			return fmt.Errorf("the sandbox of %s", sandboxes[0].GetMetadata().GetName())
		}
		return nil
	})
}

// nothingIsLeft waits until the API server has none of the steps' namespaces. Then every pod in them was finalised.
func nothingIsLeft(s *scene) {
	s.eventually("namespaces are gone", func() error {
		names := strings.Fields(s.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"))
		left := slices.DeleteFunc(names, func(name string) bool {
			return name == s.namespace || name == "default" || strings.HasPrefix(name, "kube-")
		})
		if len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	sandboxes, err := s.node.server.Runtime.ListPodSandbox(s.Context(), nil)
	testutil.Must(s, err)
	for _, sandbox := range sandboxes {
		testutil.Assert(s, sandbox.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY, "the sandbox of %s/%s runs",
			sandbox.GetMetadata().GetNamespace(), sandbox.GetMetadata().GetName())
	}
}

func (s *scene) nodeObject(ctx context.Context) (*v1.Node, error) {
	return s.core.Nodes().Get(ctx, s.node.name, metav1.GetOptions{})
}

func uids(pods []v1.Pod) []string {
	var all []string
	for i := range pods {
		all = append(all, string(pods[i].UID))
	}
	return all
}

// container is the status of the only container of a pod.
func container(pod *v1.Pod) (*v1.ContainerStatus, error) {
	if len(pod.Status.ContainerStatuses) != 1 {
		return nil, errors.New("there is no status of its container yet")
	}
	return &pod.Status.ContainerStatuses[0], nil
}
