package kuberuntime

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// TestStatusOfNewSandbox: a failed status request for a new sandbox has its own event.
func TestStatusOfNewSandbox(t *testing.T) {
	b := newBench(t)
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
	b.fake.InjectError("PodSandboxStatus", errors.New("not now"))
	_, err := b.SyncPod(t.Context(), pod, &model.PodStatus{UID: pod.UID}, Probes{})
	testutil.Assert(t, err != nil && b.message("FailedCreatePodSandBox") == "", "%v", err)
	testutil.Equal(t, b.message("FailedPodSandBoxStatus"), "Unable to get pod sandbox status: not now", "event")
}
