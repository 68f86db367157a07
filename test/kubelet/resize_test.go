package kubelet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const resized = `
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: stays
    image: SHELL
    command: [sleep, "1000"]
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 500m, memory: 32Mi}}
  - name: restarts
    image: SHELL
    command: [sleep, "1000"]
    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 500m, memory: 32Mi}}
`

// memoryLimit reads a container's memory limit from its cgroup, of either version.
func (n *node) memoryLimit(pod *v1.Pod, container string) string {
	n.t.Helper()
	return n.exec(pod, container, "sh", "-c",
		"cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes")
}

// podMemoryLimit reads the memory limit of the pod's cgroup.
func (n *node) podMemoryLimit(pod *v1.Pod) string {
	return n.podCgroup("/kubepods/burstable/pod"+string(pod.UID), memoryLimit)
}

func setMemory(pod *v1.Pod, container, amount string) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == container {
			c.Resources.Requests[v1.ResourceMemory], c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(
				amount), resource.MustParse(amount)
		}
	}
}

// hasMemory checks that the status shows this limit for a container, and no pending resize of the pod.
func hasMemory(container, amount string) func(*v1.Pod) error {
	return func(pod *v1.Pod) error {
		for _, kind := range []v1.PodConditionType{v1.PodResizePending, v1.PodResizeInProgress} {
			if found := conditionOf(pod, kind); found != nil {
				return fmt.Errorf("%s: %s %s", kind, found.Reason, found.Message)
			}
		}
		now := status(pod, container)
		if now.Resources == nil || now.Resources.Limits.Memory().String() != amount ||
			now.AllocatedResources.Memory().String() != amount {
			return fmt.Errorf("%s has the resources %v, and %v is allocated", container, now.Resources,
				now.AllocatedResources)
		}
		return wantReady(pod, v1.ConditionTrue)
	}
}

// TestResize raises and lowers limits of running containers. A container restarts only if its resizePolicy says so. No
// limit goes below the memory in use. The limit of the pod's cgroup changes, too.
func TestResize(t *testing.T) {
	rigenv.RequireControllers(t, "cpu", "memory")
	n := newClusterNode(t)
	pod := n.bind(strings.Replace(resized, "NAME", "resized", 1))
	before := n.showsReady(pod)
	for _, step := range []struct{ container, amount, limit, podLimit string }{
		{"stays", "64Mi", "67108864", "100663296"}, {"stays", "40Mi", "41943040", "75497472"},
		{"restarts", "64Mi", "67108864", "109051904"},
	} {
		n.change(pod, func(now *v1.Pod) { setMemory(now, step.container, step.amount) })
		now := n.shows(pod, step.container+" has "+step.amount, hasMemory(step.container, step.amount))
		testutil.Equal(t, n.memoryLimit(now, step.container), step.limit, "%s", step.container)
		testutil.Equal(t, n.podMemoryLimit(pod), step.podLimit, "%s: the pod", step.container)
	}
	now := n.showsReady(pod)
	testutil.Assert(t, id(now, "stays") == id(before, "stays") && status(now, "stays").RestartCount == 0,
		"the container that stays was restarted")
	testutil.Assert(t, id(now, "restarts") != id(before, "restarts") && status(now, "restarts").RestartCount == 1,
		"the container that must restart was not restarted once")
	n.change(pod, func(now *v1.Pod) { setMemory(now, "stays", "4Ki") })
	n.shows(pod, "less than is in use", func(now *v1.Pod) error {
		if found := conditionOf(now, v1.PodResizeInProgress); found == nil || found.Reason != v1.PodReasonError ||
			!strings.Contains(found.Message, "in use") {
			return fmt.Errorf("condition %v", found)
		}
		return nil
	})
	testutil.Equal(t, n.memoryLimit(now, "stays"), "41943040", "bytes after a failed resize")
	n.end(pod)
}

// TestResizeToNoLimit removes the limits of a running container and of the pod's cgroup.
func TestResizeToNoLimit(t *testing.T) {
	n := newClusterNode(t)
	pod := n.bind(strings.Replace(resized, "NAME", "unlimited", 1))
	before := n.showsReady(pod)
	n.change(pod, func(now *v1.Pod) { clear(now.Spec.Containers[0].Resources.Limits) })
	now := n.shows(pod, "no limits", func(now *v1.Pod) error {
		if found := conditionOf(now, v1.PodResizeInProgress); found != nil {
			return fmt.Errorf("%s: %s", found.Reason, found.Message)
		}
		if has := status(now, "stays").Resources; has == nil || len(has.Limits) > 0 {
			return fmt.Errorf("it has %v", has)
		}
		return nil
	})
	none := func(limit string) bool { return limit == "max" || limit == "9223372036854771712" }
	got := n.memoryLimit(now, "stays")
	testutil.Assert(t, none(got) && id(now, "stays") == id(before, "stays"), "it has %s bytes", got)
	got = n.podMemoryLimit(pod)
	testutil.Assert(t, none(got), "the pod has %s bytes", got)
	n.end(pod)
}

// TestResizeThatDoesNotFit resizes beyond the free memory. The resize is Infeasible if the node is too small. Otherwise
// it is Deferred until other pods end, also over a restart of the kubelet. The pod keeps its limits meanwhile.
func TestResizeThatDoesNotFit(t *testing.T) {
	rigenv.RequireControllers(t, "cpu", "memory")
	n := newClusterNode(t)
	var most int64
	eventually(t, "the node is registered", func() error {
		node, ok := n.api.Object(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}).(*v1.Node)
		if !ok || node.Status.Allocatable.Memory().IsZero() {
			return errors.New("not yet")
		}
		most = node.Status.Allocatable.Memory().Value()
		return nil
	})
	other := n.bind(
		strings.Replace(strings.ReplaceAll(resized, "memory: 32Mi", fmt.Sprint("memory: ", most/3)), "NAME", "other",
			1))
	pod := n.bind(strings.Replace(resized, "NAME", "resized", 1))
	n.showsReady(other)
	before := n.showsReady(pod)
	pending := func(reason string) func(*v1.Pod) error {
		return func(now *v1.Pod) error {
			if found := conditionOf(now, v1.PodResizePending); found == nil || found.Reason != reason {
				return fmt.Errorf("condition %v", found)
			}
			if granted := status(now, "stays").AllocatedResources; granted.Memory().String() != "32Mi" {
				return fmt.Errorf("it is allocated %v", granted)
			}
			return nil
		}
	}
	n.change(pod, func(now *v1.Pod) { setMemory(now, "stays", fmt.Sprint(2*most)) })
	n.shows(pod, "more than the node has", pending(v1.PodReasonInfeasible))
	n.change(pod, func(now *v1.Pod) { setMemory(now, "stays", fmt.Sprint(most/2)) })
	n.shows(pod, "more than is left", pending(v1.PodReasonDeferred))
	n.kill()
	n.start()
	n.shows(pod, "more than is left after a restart", pending(v1.PodReasonDeferred))
	testutil.Equal(t, n.memoryLimit(before, "stays"), "33554432", "bytes meanwhile")
	n.end(other)
	now := n.shows(pod, "the other pod left room",
		hasMemory("stays", resource.NewQuantity(most/2, resource.DecimalSI).String()))
	testutil.Assert(t, id(now, "stays") == id(before, "stays"), "the container was restarted")
	n.end(pod)
}
