package housekeeping

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// sources have been seen or not, and list the pod "a" or none.
type sources struct{ seen, listed bool }

func (s sources) SeenAllSources() bool      { return s.seen }
func (s sources) Settled() bool             { return s.seen }
func (s sources) HasPod(uid types.UID) bool { return s.listed && uid == "a" }

// crashed puts a pod into the runtime whose container ended three times.
func crashed(t *testing.T, r *apitest.FakeRuntimeService) {
	t.Helper()
	labels := map[string]string{model.LabelPodUID: "a", model.LabelPodName: "a", model.LabelPodNamespace: "default", model.LabelOwner: "us"}
	sandbox, err := r.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Namespace: "default", Uid: "a"}, Labels: labels,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for attempt := range uint32(3) {
		id, err := r.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: attempt}, Image: &runtimeapi.ImageSpec{Image: "i"}, Labels: labels,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.StopContainer(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	if err := r.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
}

// TestSilentSource keeps the newest dead attempt of a pod that a source may still name, or names, and no other.
func TestSilentSource(t *testing.T) {
	for _, listed := range []sources{{}, {seen: true}, {seen: true, listed: true}} {
		t.Run(fmt.Sprintf("%+v", listed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := apitest.NewFakeRuntimeService()
				crashed(t, fake)
				runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
				c := NewCollectors(CollectorsOptions{
					Runtime: runtime, RuntimeErr: func() error { return nil }, PodConfig: listed, PodLogsDir: t.TempDir(),
					Workers: podworkers.New(t.Context(), podworkers.Options{PodSyncer: nothing{}}),
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				if err := c.Run(ctx); err != nil {
					t.Fatal(err)
				}
				left, err := runtime.PodStatus(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				want := 1
				if listed.seen && !listed.listed {
					want = 0
				}
				if len(left.Containers) != want || len(left.Sandboxes) != want || want == 1 && left.Containers[0].Attempt != 2 {
					t.Errorf("left %+v", left)
				}
			})
		})
	}
}
