package server

import (
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// session is the answer to a request for a session, and the wanted URL.
type session struct {
	want, url string
	err       error
}

// sessions asks for one session of each kind.
func (n *node) sessions(t *testing.T) []session {
	t.Helper()
	exec, execErr := n.Exec(t.Context(),
		&runtimeapi.ExecRequest{ContainerId: containerID, Cmd: []string{"sh"}, Stdin: true})
	attach, attachErr := n.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: containerID, Stdout: true})
	forward, forwardErr := n.PortForward(t.Context(),
		&runtimeapi.PortForwardRequest{PodSandboxId: podID, Port: []int32{80}})
	return []session{
		{"exec/" + containerID, exec.GetUrl(), execErr},
		{"attach/" + containerID, attach.GetUrl(), attachErr},
		{"portforward/" + podID, forward.GetUrl(), forwardErr},
	}
}

func TestSessions(t *testing.T) {
	for _, s := range nodeWithPod().sessions(t) {
		testutil.Assert(t, s.err == nil && s.url == s.want, "got %q, %v, want %q", s.url, s.err, s.want)
	}
}

func TestNoSessionWithWhatDoesNotRun(t *testing.T) {
	n := nodeWithPod()
	_, err := n.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: containerID})
	testutil.Must(t, err)
	_, err = n.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: podID})
	testutil.Must(t, err)
	for _, s := range n.sessions(t) {
		testutil.Assert(t, s.url == "" && errdefs.IsFailedPrecondition(s.err),
			"got %q, %v, want no %q", s.url, s.err, s.want)
	}
}
