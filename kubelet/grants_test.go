package kubelet

import (
	"context"
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
)

// An ended pod that is not collected yet uses no devices or CPUs. It keeps its user ids.
func TestEndedPodUsesNoGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fake := testLoop(t), apitest.NewFakeRuntimeService()
		sandbox, err := fake.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: "ended"},
			Labels: map[string]string{model.LabelPodUID: "ended", model.LabelPodName: "pod",
				model.LabelPodNamespace: "ns", model.LabelOwner: "us"},
		}, "")
		testutil.Must(t, err)
		runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
		relist := func() {
			ctx, cancel := context.WithCancel(t.Context())
			l.pleg = pleg.New(pleg.Options{Runtime: runtime, Cache: pleg.NewCache(runtime), NoEvents: true})
			ended := testutil.Go(func() error { l.pleg.Run(ctx); return nil })
			synctest.Wait() // the first list is made
			cancel()
			testutil.Must(t, <-ended)
		}
		relist()
		testutil.Assert(t, l.usesGrants("ended"), "a pod that runs without a worker uses no devices")
		testutil.Must(t, fake.StopPodSandbox(t.Context(), sandbox))
		relist()
		testutil.Assert(t, !l.usesGrants("ended"), "an ended pod uses devices")
		testutil.Assert(t, l.hasPod("ended"), "an ended pod has lost its user ids")
	})
}
