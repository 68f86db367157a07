package housekeeping

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// sources is a PodConfig. seen says that all sources have been seen, and listed says that one lists the pod a.
type sources struct{ seen, listed bool }

func (s sources) SeenAllSources() bool      { return s.seen }
func (s sources) Settled() bool             { return s.seen }
func (s sources) HasPod(uid types.UID) bool { return s.listed && uid == "a" }

// labels are the labels of the pod a.
var labels = map[string]string{model.LabelPodUID: "a", model.LabelPodName: "a", model.LabelPodNamespace: "default",
	model.LabelOwner: "us"}

// runSandbox runs a sandbox of the pod a.
func runSandbox(t *testing.T, r *apitest.FakeRuntimeService) (id string) {
	t.Helper()
	id, err := r.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Namespace: "default", Uid: "a"}, Labels: labels,
	}, "")
	testutil.Must(t, err)
	return id
}

// crashed adds a pod whose container ended three times.
func crashed(t *testing.T, r *apitest.FakeRuntimeService) {
	t.Helper()
	sandbox := runSandbox(t, r)
	for attempt := range uint32(3) {
		id, err := r.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: "i"}, Labels: labels,
		}, nil)
		testutil.Must(t, err)
		testutil.Must(t, r.StopContainer(t.Context(), id, 0))
		time.Sleep(time.Second)
	}
	testutil.Must(t, r.StopPodSandbox(t.Context(), sandbox))
}

// over ends pods at once.
type over struct{ nothing }

func (over) SyncPod(context.Context, *v1.Pod) (bool, time.Duration, error) {
	return true, 0, nil
}

// TestRemoveDead: a finished pod loses its containers. A running pod and a static pod keep the newest attempt.
func TestRemoveDead(t *testing.T) {
	static := map[string]string{model.AnnotationConfigSource: model.SourceFile}
	for _, test := range []struct {
		name   string
		pod    *v1.Pod
		syncer podworkers.PodSyncer
		want   int
	}{
		{"over", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, over{}, 0},
		{"runs", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, nothing{}, 1},
		{"static", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: static}}, over{}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				fake := apitest.NewFakeRuntimeService()
				crashed(t, fake)
				runtime, down := cri.New(fake, apitest.NewFakeImageService(), "us"), errors.New("down")
				workers := podworkers.New(ctx, podworkers.Options{PodSyncer: test.syncer})
				t.Cleanup(workers.Wait)
				workers.Update(test.pod)
				synctest.Wait()
				runtimeErr := down
				c := NewCollectors(CollectorsOptions{
					Runtime: runtime, Cache: pleg.NewCache(runtime), RuntimeErr: func() error {
						return runtimeErr
					}, PodConfig: sources{seen: true, listed: true},
					PodLogsDir: t.TempDir(), Workers: workers,
				})
				err := errors.Join(c.RemoveDead(ctx), c.RemoveImages(ctx))
				testutil.Assert(t, errors.Is(err, down), "while the runtime is down: %v", err)
				runtimeErr = nil
				testutil.Check(t, errors.Join(c.RemoveDead(ctx), c.RemoveImages(ctx)))
				left, err := runtime.PodStatus(ctx, "a")
				testutil.Assert(t, err == nil && len(left.Containers) == test.want,
					"%d containers are left, want %d: %v", len(left.Containers), test.want, err)
			})
		})
	}
}

// TestLateSandbox: a sandbox that becomes ready after the pod's end is stopped, although a source lists the pod. A pod
// that runs keeps its sandbox.
func TestLateSandbox(t *testing.T) {
	for _, test := range []struct {
		syncer podworkers.PodSyncer
		ready  bool
	}{{over{}, false}, {nothing{}, true}} {
		synctest.Test(t, func(t *testing.T) {
			fake := apitest.NewFakeRuntimeService()
			runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
			workers := podworkers.New(t.Context(), podworkers.Options{PodSyncer: test.syncer})
			t.Cleanup(workers.Wait)
			workers.Update(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}})
			synctest.Wait()
			runSandbox(t, fake)
			c := NewCollectors(CollectorsOptions{
				Runtime: runtime, Cache: pleg.NewCache(runtime), RuntimeErr: func() error {
					return nil
				}, PodConfig: sources{seen: true, listed: true}, PodLogsDir: t.TempDir(), Workers: workers,
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			testutil.Must(t, c.Run(ctx))
			left, err := runtime.PodStatus(t.Context(), "a")
			testutil.Assert(t, err == nil && left.Alive() == test.ready, "%T: alive %v, want %v: %v", test.syncer,
				left.Alive(), test.ready, err)
		})
	}
}

// TestSilentSource: the newest dead attempt stays while a source names the pod or may still name it.
func TestSilentSource(t *testing.T) {
	for _, listed := range []sources{{}, {seen: true}, {seen: true, listed: true}} {
		t.Run(fmt.Sprintf("%+v", listed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := apitest.NewFakeRuntimeService()
				crashed(t, fake)
				runtime := cri.New(fake, apitest.NewFakeImageService(), "us")
				c := NewCollectors(CollectorsOptions{
					Runtime: runtime, Cache: pleg.NewCache(runtime), RuntimeErr: func() error {
						return nil
					}, PodConfig: listed, PodLogsDir: t.TempDir(),
					Workers: podworkers.New(t.Context(), podworkers.Options{PodSyncer: nothing{}}),
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				testutil.Must(t, c.Run(ctx))
				left, err := runtime.PodStatus(t.Context(), "a")
				testutil.Must(t, err)
				want := 1
				if listed.seen && !listed.listed {
					want = 0
				}
				if len(left.Containers) != want || len(left.Sandboxes) != want ||
					want == 1 && left.Containers[0].Attempt != 2 {
					t.Errorf("left %+v", left)
				}
			})
		})
	}
}

// TestFailuresAreEvents: each failed collection of containers is an event. A failed collection of images is an event
// from the second failure in a row on, as in the kubelet.
func TestFailuresAreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := apitest.NewFakeRuntimeService()
		fake.InjectError("ListPodSandbox", errors.New("no sandboxes"))
		runtime := cri.New(fake, apitest.NewFakeImageService(), "us") // it reports no file system of images
		var mu sync.Mutex
		events := map[string]int{}
		c := NewCollectors(CollectorsOptions{
			Runtime: runtime, Cache: pleg.NewCache(runtime), RuntimeErr: func() error {
				return nil
			}, PodConfig: sources{seen: true}, PodLogsDir: t.TempDir(),
			Workers: podworkers.New(t.Context(), podworkers.Options{PodSyncer: nothing{}}),
			GC:      GCOptions{Images: time.Minute},
			Event: func(warning bool, reason, message string) {
				mu.Lock()
				defer mu.Unlock()
				testutil.Assert(t, warning && message != "", "%s: %s", reason, message)
				events[reason]++
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second) // three collections of each
		defer cancel()
		testutil.Must(t, c.Run(ctx))
		testutil.Assert(t, events["ContainerGCFailed"] == 1 && events["ImageGCFailed"] == 2, "events %v", events)
	})
}

// TestEventsOfManyFailures: the order of failures does not matter, so that the same failures are one event.
func TestEventsOfManyFailures(t *testing.T) {
	a, b, c := errors.New("remove a"), errors.New("remove b"), errors.New("remove c")
	for want, err := range map[string]error{
		"remove b":                               errors.Join(nil, b),
		"remove a (more failures in the log: 2)": errors.Join(c, errors.Join(b, a)),
	} {
		testutil.Equal(t, brief(err), want, "event")
	}
}
