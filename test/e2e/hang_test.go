package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// A stopped engine hangs without breaking a connection. RuntimeReady turns false within 15 seconds, so that the
// scheduler sends no more pods. Meanwhile lists answer at once. The node is ready within 5 seconds after the engine
// answers again.
func TestEngineHangs(t *testing.T) {
	n := newTamperedNode(t, true)
	testutil.Must(n.t, n.engine.Signal(syscall.SIGSTOP))
	defer func() { _ = n.engine.Signal(syscall.SIGCONT) }() // harmless the second time
	begin := time.Now()
	testutil.Eventually(t, func() error { return n.runtimeReady(false) })
	took := time.Since(begin)
	t.Logf("RuntimeReady was false after %v", took.Round(time.Millisecond))
	speed.Check(t, "RuntimeReady=false", took, 15*time.Second)

	begin = time.Now()
	listed, err := n.server.Runtime.ListContainers(t.Context(), nil)
	testutil.Assert(t, err == nil && len(listed) == len(n.containers), "%d containers are listed, %v", len(listed), err)
	_, err = n.server.Runtime.ContainerStatus(t.Context(), n.containers[0], false)
	testutil.Check(t, err)
	_, err = n.server.Runtime.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "late", Namespace: "e2e", Uid: "late"},
	}, "")
	testutil.Assert(t, status.Code(err) == codes.Unavailable, "a new pod: %v, want Unavailable", err)
	speed.Check(t, "the answers", time.Since(begin), 10*time.Second)

	testutil.Must(n.t, n.engine.Signal(syscall.SIGCONT))
	n.docker("ps") // returns once the engine answers again
	begin = time.Now()
	testutil.Eventually(t, func() error { return n.runtimeReady(true) })
	took = time.Since(begin)
	t.Logf("RuntimeReady was true again after %v", took.Round(time.Millisecond))
	speed.Check(t, "RuntimeReady=true", took, 5*time.Second)
}

// runtimeReady fails unless the condition is as wanted.
func (n *tamperedNode) runtimeReady(want bool) error {
	answer, err := n.server.Runtime.Status(n.t.Context(), false)
	if err != nil {
		return err
	}
	for _, condition := range answer.GetStatus().GetConditions() {
		if condition.GetType() == runtimeapi.RuntimeReady && condition.GetStatus() == want {
			return nil
		}
	}
	return fmt.Errorf("the conditions are %v", answer.GetStatus().GetConditions())
}
