package sandbox

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An engine that does not see the pods' namespaces gets sandbox containers, as it cannot join them; the one that is there
// after it is asked again.
func TestEngineThatDoesNotSeeMountsGetsSandboxContainers(t *testing.T) {
	onNode(t, withKernel, func(n *node) {
		apart := exec.Command("sleep", "1000")
		apart.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		n.must(apart.Start())
		defer func() { _ = apart.Process.Kill(); _ = apart.Wait() }()
		n.engine.peer = apart.Process.Pid
		for _, name := range []string{"first", "second"} {
			id, err := n.Run(n.Context(), podConfig(name), "")
			n.must(err)
			n.wantState(id, ready)
			if n.pod(id).Status.Namespaces != nil {
				n.Errorf("the pod %s has namespaces that the engine does not see", name)
			}
		}
		n.engine.peer = 0
		id, err := n.Run(n.Context(), podConfig("third"), "")
		n.must(err)
		if n.pod(id).Status.Namespaces == nil || n.creates() != 2 {
			n.Errorf("the engine was asked for %d containers, want those of two pods", n.creates())
		}
	})
}
