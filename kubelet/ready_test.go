package kubelet

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/pleg"
)

// TestNetworkNotReadyStopsNothing: the loop keeps running while only the runtime's network is not ready.
func TestNetworkNotReadyStopsNothing(t *testing.T) {
	for _, test := range []struct {
		runtime, network, ok bool
	}{{true, true, true}, {true, false, true}, {false, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			fake := apitest.NewFakeRuntimeService()
			fake.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
				{Type: runtimeapi.RuntimeReady, Status: test.runtime},
				{Type: runtimeapi.NetworkReady, Status: test.network},
			}}
			runtime := cri.New(fake, nil, "us")
			k := &Kubelet{
				state: cri.NewState(runtime), loop: &syncLoop{},
				pleg: pleg.New(pleg.Options{Runtime: runtime, Cache: pleg.NewCache(runtime), NoEvents: true}),
			}
			go k.pleg.Run(t.Context())
			go k.state.Run(t.Context(), time.Second, func() {})
			time.Sleep(5 * time.Second)
			err := k.runtimeErr()
			testutil.Assert(t, (err == nil) == test.ok, "%+v: %v", test, err)
			err = k.Healthy()
			testutil.Assert(t, err == nil, "%+v: not healthy after some seconds: %v", test, err)
		})
	}
}
