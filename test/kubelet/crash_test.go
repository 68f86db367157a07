package kubelet

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// runsOnce fails unless the runtime has one ready sandbox of the pod and one running container.
func (n *node) runsOnce(pod *v1.Pod) error {
	sandboxes := n.sandboxes(pod, false)
	containers, err := n.cri.ListContainers(n.t.Context(), &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{model.LabelPodUID: string(pod.UID)},
	})
	if err != nil {
		return err
	}
	if len(sandboxes) != 1 || len(containers) != 1 {
		return fmt.Errorf("%d sandboxes are ready and %d containers run", len(sandboxes), len(containers))
	}
	return nil
}

// TestKubeletCrashWhileStarting kills the kubelet at several moments of a pod's start. Each pod runs once afterwards.
// An earlier pod runs on without a restart.
func TestKubeletCrashWhileStarting(t *testing.T) {
	n := newNode(t)
	before := n.run("pod", "sleep 1000")
	const crashes = 4
	for i := range crashes {
		name := fmt.Sprintf("pod%d", i)
		n.write(name+".yaml", simple(name, "sleep 1000"))
		time.Sleep(time.Duration(100+150*i) * time.Millisecond)
		n.kill()
		n.start()
	}
	for i := range crashes {
		pod := n.ready(fmt.Sprintf("pod%d", i))
		eventually(t, "it runs once", func() error {
			return n.runsOnce(pod)
		})
	}
	stays(t, "after the crashes", 2*time.Second, n.unchanged(before))
}
