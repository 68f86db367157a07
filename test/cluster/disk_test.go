package cluster

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// rootSize is the size of the disk for a kubelet's directory. One pod can fill it.
const rootSize = "256m"

// mountRoot mounts a small disk on a directory.
func mountRoot(t *testing.T, dir string) {
	t.Helper()
	testutil.Must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+rootSize))
	t.Cleanup(func() { testutil.Check(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmount "+dir) })
}

// fullDisk shows that the kubelet evicts a pod that fills the node's disk, that other pods run on, and that the node
// takes pods again. The kubelet ranks pods by stats that are some seconds old. So the pod uses the most disk for a
// while before it fills the disk.
func fullDisk(s *scene) {
	s.node.restart(s.T, settings{
		flags:    []string{"--eviction-pressure-transition-period", "5s"},
		config:   "evictionPressureTransitionPeriod: 5s\nvolumeStatsAggPeriod: 5s\n",
		diskLeft: "20%",
	})
	before := s.steadyPods()
	s.applyPod("hungry", `
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "dd if=/dev/zero of=/scratch/a bs=1M count=150; sleep 15; dd if=/dev/zero of=/scratch/b bs=1M count=80; sleep 3600"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
`)
	s.until("hungry", func(pod *v1.Pod) error {
		if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Evicted" ||
			!strings.Contains(pod.Status.Message, "ephemeral-storage") {
			return fmt.Errorf("%s %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
		}
		return nil
	})
	s.eventually("the pressure is over", func() error {
		node, err := s.nodeObject(s.Context())
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == v1.NodeDiskPressure && condition.Status != v1.ConditionFalse {
				return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
			}
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("taints %v", node.Spec.Taints)
		}
		return nil
	})
	s.sameContainers(before)
	s.takesOrders()
	s.node.restart(s.T, settings{})
}
