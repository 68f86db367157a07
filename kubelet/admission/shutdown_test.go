package admission

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/status"
)

// TestShutdownRefusesPods: during a shutdown all pods are rejected, even critical ones. A pod with a terminal phase is
// not.
func TestShutdownRefusesPods(t *testing.T) {
	statuses, rejected := status.NewManager(), NewRejections()
	a := NewAdmitter(Options{
		ShutdownErr: func() error {
			return errors.New("node is shutting down")
		}, Rejections: rejected, Status: statuses, Events: events.New("here"),
	})
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Spec.Priority = new(int32(2_000_000_000))
	testutil.Assert(t, !a.Admit(t.Context(), pod) && rejected.Has(pod.UID), "a pod was admitted")
	if got := statuses.Status(pod); got.Phase != v1.PodFailed || got.Reason != "NodeShutdown" ||
		got.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
		t.Errorf("%s %s: %s", got.Phase, got.Reason, got.Message)
	}
	pod.Status.Phase = v1.PodSucceeded
	testutil.Assert(t, a.Admit(t.Context(), pod), "a pod with a terminal phase was rejected")
}
