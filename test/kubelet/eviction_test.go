package kubelet

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// hungry is a pod whose container runs the shell command DOES.
const hungry = `
metadata: {name: NAME}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 60
  volumes: [{name: scratch, emptyDir: {VOLUME}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "DOES; sleep 1000"]
    resources: {LIMITS}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
`

// bindHungry gives the node a hungry pod.
func (c *clusterNode) bindHungry(name, does, volume, limits string) *v1.Pod {
	return c.bind(strings.NewReplacer("NAME", name, "DOES", does, "VOLUME", volume, "LIMITS", limits).Replace(hungry))
}

// evicts waits until a pod is evicted with a message that begins with message. It waits three times as long as other
// checks. The kubelet looks every ten seconds, at stats that may be ten seconds old, and evicts one pod at a time.
func (c *clusterNode) evicts(pod *v1.Pod, message string) *v1.Pod {
	c.t.Helper()
	return c.showsWithin(3*patience, pod, "pod "+pod.Name+" is evicted", evicted(message))
}

// evicted returns a check that a pod failed with the reason Evicted, a message that begins with message, and an ended
// container main.
func evicted(message string) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Evicted" ||
			!strings.HasPrefix(pod.Status.Message, message) {
			return fmt.Errorf("%s %s: %s, want Evicted: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message,
				message)
		}
		if state := status(pod, "main").State; state.Terminated == nil {
			return fmt.Errorf("its container is %+v", state)
		}
		return nil
	}
}

// TestLocalStorageLimits: pods that write more than they may are evicted. They write into an emptyDir, a writable
// layer, a log, or all of these together. Pods within their limits run on.
func TestLocalStorageLimits(t *testing.T) {
	const write8Mi = "dd if=/dev/zero of=%s bs=1M count=8"
	n := newClusterNode(t)
	limit := func(amount string) string { return fmt.Sprintf("limits: {ephemeral-storage: %s}", amount) }
	modest := n.bindHungry("modest", fmt.Sprintf(write8Mi, "/scratch/x"), "sizeLimit: 64Mi", limit("256Mi"))
	over := map[*v1.Pod]string{
		n.bindHungry("volume", fmt.Sprintf(write8Mi, "/scratch/x"), "sizeLimit: 4Mi",
			""): `Usage of EmptyDir volume "scratch" exceeds the limit "4Mi".`,
		n.bindHungry("layer", fmt.Sprintf(write8Mi, "/x"), "",
			limit("4Mi")): `Pod ephemeral local storage usage exceeds the total limit of containers 4Mi.`,
		n.bindHungry("log", "for i in $(seq 8); do head -c 1048576 /dev/zero | tr '\\\\0' 'x' | fold; done", "",
			limit("4Mi")): `Pod ephemeral local storage usage exceeds the total limit of containers 4Mi.`,
		n.bindHungry("together", fmt.Sprintf(write8Mi, "/scratch/x")+"; "+fmt.Sprintf(write8Mi, "/x"), "",
			limit("12Mi")): `Pod ephemeral local storage usage exceeds the total limit of containers 12Mi.`,
	}
	for pod, message := range over {
		n.evicts(pod, message)
		event := n.eventOf(pod.Name, "Evicted")
		testutil.Assert(t, event.Message == message && event.Type == v1.EventTypeWarning,
			"%s: event %s: %s", pod.Name, event.Type, event.Message)
	}

	now := n.showsReady(modest)
	testutil.Equal(t, status(now, "main").RestartCount, 0, "restarts of the modest pod")
}

// TestStaticPodSizeLimit: a static pod is evicted if it writes more into an emptyDir than it may. It runs again when
// its manifest changes. A pod with a system priority is not evicted.
func TestStaticPodSizeLimit(t *testing.T) {
	n := newNode(t)
	const spec = `
  terminationGracePeriodSeconds: 0
  volumes: [{name: scratch, emptyDir: {sizeLimit: 4Mi}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "dd if=/dev/zero of=/scratch/x bs=1M count=COUNT; sleep 1000"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
`
	n.writePod("system", strings.Replace(spec, "COUNT", "8", 1)+"  priorityClassName: system-node-critical\n")
	n.writePod("greedy", strings.Replace(spec, "COUNT", "8", 1))
	n.until("greedy", evicted(`Usage of EmptyDir volume "scratch" exceeds the limit "4Mi".`))
	n.writePod("greedy", strings.Replace(spec, "COUNT", "2", 1))
	n.ready("greedy")
	n.ready("system")
}

// TestContainerStorageLimit: a pod is evicted if one container exceeds its own limit. The pod uses less than the sum of
// its containers' limits.
func TestContainerStorageLimit(t *testing.T) {
	n := newClusterNode(t)
	pod := n.bind(`
metadata: {name: pair}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "dd if=/dev/zero of=/x bs=1M count=8; sleep 1000"], resources: {limits: {ephemeral-storage: 4Mi}}}
  - {name: other, image: SHELL, command: [sleep, "1000"], resources: {limits: {ephemeral-storage: 256Mi}}}
`)
	n.evicts(pod, `Container main exceeded its local ephemeral storage limit "4Mi".`)
}

// hasCondition wants the server's node to have a condition.
func (c *clusterNode) hasCondition(kind v1.NodeConditionType, status v1.ConditionStatus, reason string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the node has %s=%s", kind, status), func() error {
		node, ok := c.api.Object(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}}).(*v1.Node)
		if !ok {
			return errors.New("it is not registered")
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == kind && condition.Status == status && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it has %+v", node.Status.Conditions)
	})
}

// showsRefused waits until a pod is refused with a message that has this text.
func (c *clusterNode) showsRefused(pod *v1.Pod, message string) {
	c.t.Helper()
	c.shows(pod, "a pod is refused", func(now *v1.Pod) error {
		if now.Status.Phase != v1.PodFailed || now.Status.Reason != "Evicted" ||
			!strings.Contains(now.Status.Message, message) {
			return fmt.Errorf("%s %s: %s", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return nil
	})
}

// TestMemoryPressure makes the node short of memory by a threshold above any free memory. Pods are evicted one after
// the other, pods without requests first. A critical pod stays, and new pods without requests are refused.
func TestMemoryPressure(t *testing.T) {
	n := newClusterNode(t)
	const text = `
metadata: {name: NAME}
spec:
  priority: PRIORITY
  terminationGracePeriodSeconds: 60
  containers: [{name: main, image: SHELL, command: [sleep, "1000"], resources: {RESOURCES}}]
`
	pod := func(name, priority, resources string) *v1.Pod {
		return n.bind(strings.NewReplacer("NAME", name, "PRIORITY", priority, "RESOURCES", resources).Replace(text))
	}
	const modestly = "requests: {memory: 64Mi}"
	critical, modest, greedy := pod("critical", "2000000000", ""), pod("modest", "0", modestly), pod("greedy", "1000",
		"")
	for _, each := range []*v1.Pod{critical, modest, greedy} {
		n.showsReady(each)
	}
	n.hasCondition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory")
	n.stop()
	n.flags = append(n.flags, "--eviction-hard", "memory.available<99%")
	n.start()
	n.hasCondition(v1.NodeMemoryPressure, v1.ConditionTrue, "KubeletHasInsufficientMemory")
	n.hasCondition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure")
	const low = "The node was low on resource: memory. Threshold quantity: "
	first := n.evicts(greedy, low)
	message := first.Status.Message
	testutil.Assert(t, strings.Contains(message, "Container main was using ") &&
		strings.HasSuffix(message, ", request is 0, has larger consumption of memory."), "message %q", message)
	target := conditionOf(first, v1.DisruptionTarget)
	testutil.Assert(t, target != nil && target.Status == v1.ConditionTrue && target.Reason == "TerminationByKubelet",
		"condition %+v", target)
	second := n.evicts(modest, low)
	a, b := status(first, "main").State.Terminated.FinishedAt, status(second, "main").State.Terminated.FinishedAt
	testutil.Assert(t, !b.Before(&a),
		"the pod within its requests ended at %v, before the other pod, which ended at %v", b, a)
	event := n.eventOf(n.name, "EvictionThresholdMet")
	testutil.Assert(t, event.Message == "Attempting to reclaim memory", "event %q", event.Message)
	n.showsRefused(pod("refused", "0", ""), "The node had condition: [MemoryPressure].")
	testutil.Equal(t, status(n.showsReady(critical), "main").RestartCount, 0, "restarts of the critical pod")
}

// TestCriticalPodPreempts fills the node's CPU with a pod. A pod that does not fit is refused. A critical pod preempts
// the first pod and runs.
func TestCriticalPodPreempts(t *testing.T) {
	n := newClusterNode(t)
	const text = `
metadata: {name: NAME}
spec:
  priority: PRIORITY
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: SHELL, command: [sleep, "1000"], resources: {requests: {cpu: CPU}}}]
`
	most := fmt.Sprintf("%dm", goruntime.NumCPU()*1000-200)
	pod := func(name, priority string) *v1.Pod {
		return n.bind(strings.NewReplacer("NAME", name, "PRIORITY", priority, "CPU", most).Replace(text))
	}
	app := pod("app", "0")
	n.showsReady(app)
	plain := pod("plain", "100")
	n.shows(plain, "a pod that does not fit is refused", func(now *v1.Pod) error {
		if now.Status.Reason != "OutOfcpu" {
			return fmt.Errorf("%s %s", now.Status.Phase, now.Status.Reason)
		}
		return nil
	})
	critical := pod("critical", "2000000000")
	n.showsReady(critical)
	n.shows(app, "the pod is preempted", func(now *v1.Pod) error {
		target := conditionOf(now, v1.DisruptionTarget)
		if now.Status.Phase != v1.PodFailed || now.Status.Reason != "Preempting" || target == nil ||
			target.Status != v1.ConditionTrue {
			return fmt.Errorf("%s %s: %s, %+v", now.Status.Phase, now.Status.Reason, now.Status.Message, target)
		}
		return nil
	})
}

// TestSoftEviction: below a soft threshold the condition begins at once. A pod is evicted after the threshold's grace
// period, and has its own termination grace period to end.
func TestSoftEviction(t *testing.T) {
	n := newClusterNode(t, "--eviction-soft", "memory.available<99%", "--eviction-soft-grace-period",
		"memory.available=15s", "--eviction-max-pod-grace-period", "20")
	n.hasCondition(v1.NodeMemoryPressure, v1.ConditionTrue, "KubeletHasInsufficientMemory")
	pod := n.bind(`
metadata: {name: patient}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - {name: main, image: SHELL, command: [sh, -c, "trap 'sleep 2; exit 7' TERM; while :; do sleep 0.1; done"],
    resources: {requests: {memory: 1Mi}}}
`)
	evicted := n.evicts(pod, "The node was low on resource: memory. Threshold quantity: ")
	ended := status(evicted, "main").State.Terminated
	testutil.Equal(t, ended.ExitCode, 7, "exit code of a container that had its time to end")
}

// TestDiskPressure fills a small disk with a pod's volume. That pod is evicted, and the other pod stays. A new pod is
// refused, and runs after the pressure.
func TestDiskPressure(t *testing.T) {
	n := prepareClusterNode(t, "--eviction-hard", "nodefs.available<50%", "--eviction-pressure-transition-period",
		"15s")
	testutil.Must(t, os.Mkdir(n.root, 0o755))
	testutil.Must(t, unix.Mount("tmpfs", n.root, "tmpfs", 0, "size=64m"))
	n.start()
	modest := n.bindHungry("modest", "dd if=/dev/zero of=/scratch/x bs=1M count=2", "", "")
	n.showsReady(modest)
	n.hasCondition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure")
	hungry := n.bindHungry("hungry", "dd if=/dev/zero of=/scratch/x bs=1M count=40", "", "")
	n.hasCondition(v1.NodeDiskPressure, v1.ConditionTrue, "KubeletHasDiskPressure")
	n.evicts(hungry, "The node was low on resource: ephemeral-storage. Threshold quantity: 32Mi, available: ")
	n.showsRefused(n.bindHungry("refused", "true", "", ""), "The node had condition: [DiskPressure].")
	event := n.eventOf(n.name, "EvictionThresholdMet")
	testutil.Assert(t, event.Message == "Attempting to reclaim ephemeral-storage", "event %q", event.Message)
	n.hasCondition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure")
	n.showsReady(n.bindHungry("later", "true", "", ""))
	n.showsReady(modest)
}
