package kubelet

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestCPUManager: a container gets a CPU of its own, and keeps the CPU over restarts of the container and of the
// kubelet. Other containers have the rest meanwhile. When the policy ends, all containers have all CPUs again.
func TestCPUManager(t *testing.T) {
	n := newNode(t, "--cpu-manager-policy", "static", "--reserved-cpus", "0")
	cpus := func(pod *v1.Pod) cpuset.CPUSet {
		got, err := cpuset.Parse(n.exec(pod, "main", "sed", "-n", "s/^Cpus_allowed_list:\t//p", "/proc/self/status"))
		testutil.Must(t, err)
		return got
	}
	has := func(pod *v1.Pod, want cpuset.CPUSet) {
		t.Helper()
		eventually(t, "CPUs of "+pod.Name, func() error {
			if got := cpus(pod); !got.Equals(want) {
				return fmt.Errorf("it has %s, want %s", got, want)
			}
			return nil
		})
	}
	write := func(name, resources string) {
		n.write(name+".yaml", testutil.PodYAML(name, fmt.Sprintf(`
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: SHELL, command: [sleep, "1000"], resources: {%s}}
`, resources)))
	}
	write("shared", "")
	shared := n.ready("shared")
	all := cpus(shared)
	testutil.Require(t, all.Size() > 1, "this test needs two CPUs, and the machine has %s", all)

	write("alone", "limits: {cpu: 1, memory: 32Mi}")
	alone := n.ready("alone")
	own := cpus(alone)
	testutil.Assert(t, own.Size() == 1 && !own.Contains(0) && own.IsSubsetOf(all), "the container has %s", own)
	has(shared, all.Difference(own))

	n.stop()
	n.start()
	n.killContainers(id(n.ready("alone"), "main"), id(n.ready("shared"), "main"))
	has(n.restarted("alone", "main", 1), own)
	has(n.restarted("shared", "main", 1), all.Difference(own))
	n.end("alone")
	has(n.ready("shared"), all)

	write("alone", "limits: {cpu: 1, memory: 32Mi}")
	alone = n.ready("alone")
	has(alone, own)
	n.stop()
	n.flags = nil
	n.start()
	has(alone, all)
	has(n.ready("shared"), all)
}
