package kubelet

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestQOSClasses checks the cgroup and the oom_score_adj of each class.
func TestQOSClasses(t *testing.T) {
	rigenv.RequireControllers(t, "cpu")
	n := newNode(t)
	const spec = `
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: SHELL, command: [sh, -c, "echo oom $(cat /proc/self/oom_score_adj); sleep 1000"], resources: RESOURCES}]
`
	for _, c := range []struct {
		name, resources, parent string
		class                   v1.PodQOSClass
		// shares are the CPU shares of the pod's cgroup, in the units of cgroup v1 and v2.
		shares []string
		scores []string
	}{
		// Without CAP_SYS_RESOURCE, the rig's engine sets a negative score to 0, see rigenv.Env.NegativeOOM.
		{"guaranteed", "{limits: {memory: 32Mi, cpu: 500m}}", "/kubepods/pod", v1.PodQOSGuaranteed,
			[]string{"512", "20"}, []string{"-997", "0"}},
		{"burstable", "{requests: {cpu: 250m}}", "/kubepods/burstable/pod", v1.PodQOSBurstable, []string{"256", "10"},
			[]string{"999", "1000"}},
		{"besteffort", "{}", "/kubepods/besteffort/pod", v1.PodQOSBestEffort, []string{"2", "1"}, []string{"1000"}},
	} {
		n.writePod(c.name, strings.ReplaceAll(spec, "RESOURCES", c.resources))
		pod := n.ready(c.name)
		testutil.Assert(t, pod.Status.QOSClass == c.class, "%s has class %s", c.name, pod.Status.QOSClass)
		got := n.podCgroup(c.parent+string(pod.UID), []string{"cpu.shares", "cpu.weight"})
		testutil.Assert(t, slices.Contains(c.shares, got),
			"%s: the pod's cgroup %s has the shares %s, want one of %v", c.name, c.parent, got, c.shares)
		n.logHas(pod, "main", 0, "oom ")
		got = strings.TrimSpace(strings.TrimPrefix(n.log(pod, "main", 0), "oom "))
		testutil.Assert(t, slices.Contains(c.scores, got), "%s: the score is %s, want one of %v", c.name, got, c.scores)
	}
}

// TestPodLevelResources runs a pod with pod-level limits (KEP-2837). The limits are set on the pod's cgroup, and they
// count for a container without limits of its own.
func TestPodLevelResources(t *testing.T) {
	rigenv.RequireControllers(t, "cpu")
	n := newNode(t)
	n.writePod("shared", `
  terminationGracePeriodSeconds: 0
  resources: {limits: {memory: 64Mi, cpu: 500m}}
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo memory $MEMORY; sleep 1000"]
    env: [{name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}]
  - name: small
    image: SHELL
    command: [sleep, "1000"]
    resources: {limits: {memory: 16Mi}}
`)
	pod := n.ready("shared")
	testutil.Equal(t, pod.Status.QOSClass, v1.PodQOSBurstable, "class") // the containers request 16Mi
	n.logHas(pod, "main", 0, "memory 67108864\n")
	parent := "/kubepods/burstable/pod" + string(pod.UID)
	testutil.Equal(t, n.podCgroup(parent, memoryLimit), "67108864", "memory of the pod's cgroup")
	for container, want := range map[string]string{"main": "67108864", "small": "16777216"} {
		got := n.podCgroup(parent+"/"+id(pod, container), memoryLimit)
		testutil.Equal(t, got, want, "memory of the container %s", container)
	}
}
