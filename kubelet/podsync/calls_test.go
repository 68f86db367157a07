package podsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// eventedFake is a runtime that streams an event for each change, unless events is nil.
type eventedFake struct {
	*apitest.FakeRuntimeService
	events chan *runtimeapi.ContainerEventResponse
	// unknown makes each container's state unknown.
	unknown bool
}

func (f *eventedFake) ContainerStatus(
	ctx context.Context, id string, verbose bool,
) (*runtimeapi.ContainerStatusResponse, error) {
	answer, err := f.FakeRuntimeService.ContainerStatus(ctx, id, verbose)
	if err == nil && f.unknown {
		answer.Status.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
	}
	return answer, err
}

func (f *eventedFake) GetContainerEvents(ctx context.Context, out chan *runtimeapi.ContainerEventResponse,
	_ func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	for {
		select {
		case event := <-f.events:
			out <- event
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream streams events of a container or, with the sandbox's id, of the sandbox.
func (f *eventedFake) stream(sandbox, id string, kinds ...runtimeapi.ContainerEventType) {
	if f.events == nil || sandbox == "" {
		return
	}
	f.Lock()
	defer f.Unlock()
	known := f.Sandboxes[sandbox]
	for _, kind := range kinds {
		f.events <- &runtimeapi.ContainerEventResponse{
			ContainerId: id, ContainerEventType: kind,
			PodSandboxStatus: &runtimeapi.PodSandboxStatus{Id: sandbox, Metadata: known.Metadata, State: known.State,
				Labels: known.Labels},
		}
	}
}

func (f *eventedFake) sandboxOf(container string) string {
	f.Lock()
	defer f.Unlock()
	if known := f.Containers[container]; known != nil {
		return known.SandboxID
	}
	return ""
}

func (f *eventedFake) RunPodSandbox(
	ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string,
) (string, error) {
	id, err := f.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	f.stream(id, id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return id, err
}

func (f *eventedFake) StopPodSandbox(ctx context.Context, id string) error {
	err := f.FakeRuntimeService.StopPodSandbox(ctx, id)
	f.stream(id, id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return err
}

func (f *eventedFake) CreateContainer(
	ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig,
) (string, error) {
	id, err := f.FakeRuntimeService.CreateContainer(ctx, sandbox, config, pod)
	f.stream(sandbox, id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return id, err
}

func (f *eventedFake) StartContainer(ctx context.Context, id string) error {
	err := f.FakeRuntimeService.StartContainer(ctx, id)
	f.stream(f.sandboxOf(id), id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return err
}

func (f *eventedFake) StopContainer(ctx context.Context, id string, grace int64) error {
	err := f.FakeRuntimeService.StopContainer(ctx, id, grace)
	f.stream(f.sandboxOf(id), id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return err
}

func (f *eventedFake) RemoveContainer(ctx context.Context, id string) error {
	sandbox := f.sandboxOf(id)
	err := f.FakeRuntimeService.RemoveContainer(ctx, id)
	f.stream(sandbox, id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return err
}

// node runs one pod with workers and a generator, in fake time.
type node struct {
	*bench
	workers *podworkers.Workers
	calls   int
}

func inNode(t *testing.T, evented bool, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{bench: newBench(t)}
		generator := pleg.New(pleg.Options{Runtime: n.runtime, Cache: n.opts.Cache, NoEvents: !evented})
		if evented {
			n.evented.events = make(chan *runtimeapi.ContainerEventResponse, 100)
		}
		n.workers = podworkers.New(t.Context(), podworkers.Options{PodSyncer: n.Syncer})
		t.Cleanup(n.workers.Wait)
		go generator.Run(t.Context())
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-t.Context().Done():
					return
				case event := <-generator.Events():
					if event.Kind != pleg.Removed {
						n.workers.Wake(event.UID)
					}
				case now := <-tick.C:
					n.workers.WakeDue(now)
				}
			}
		}()
		test(n)
	})
}

// newCalls waits, and returns the number of calls of each method since the previous call of newCalls.
func (n *node) newCalls(wait time.Duration) string {
	time.Sleep(wait)
	synctest.Wait()
	all := n.fake.GetCalls()
	counts := map[string]int{}
	for _, call := range all[n.calls:] {
		counts[call]++
	}
	n.calls = len(all)
	var words []string
	for _, call := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s:%d", call, counts[call]))
	}
	return strings.Join(words, " ")
}

// TestCRICallsOfAPod counts the CRI calls of a pod's life. Without events, they include one list per second. The pod's
// status is requested once after each step that changes the pod, and once after each change in the runtime.
func TestCRICallsOfAPod(t *testing.T) {
	for _, test := range []struct {
		evented                         bool
		start, idle, restart, end, over string
	}{
		{
			evented: false,
			start: "ContainerStatus:1 CreateContainer:1 ListContainers:12 ListPodSandbox:12 PodSandboxStatus:2 " +
				"RunPodSandbox:1 StartContainer:1",
			idle: "ListContainers:600 ListPodSandbox:600",
			restart: "ContainerStatus:3 CreateContainer:1 ListContainers:12 ListPodSandbox:12 PodSandboxStatus:2 " +
				"StartContainer:1 StopContainer:1",
			end: "ContainerStatus:2 ListContainers:11 ListPodSandbox:11 PodSandboxStatus:1 StopContainer:1 " +
				"StopPodSandbox:1",
			over: "ListContainers:600 ListPodSandbox:600",
		},
		{
			evented: true,
			// The first event opens the stream, and then all pods are listed.
			start: "ContainerStatus:1 CreateContainer:1 ListContainers:3 ListPodSandbox:3 PodSandboxStatus:2 " +
				"RunPodSandbox:1 StartContainer:1",
			idle: "ListContainers:2 ListPodSandbox:2",
			restart: "ContainerStatus:3 CreateContainer:1 ListContainers:2 ListPodSandbox:2 PodSandboxStatus:2 " +
				"StartContainer:1 StopContainer:1",
			end: "ContainerStatus:2 ListContainers:1 ListPodSandbox:1 PodSandboxStatus:1 StopContainer:1 " +
				"StopPodSandbox:1",
			over: "ListContainers:2 ListPodSandbox:2",
		},
	} {
		t.Run(fmt.Sprintf("evented %v", test.evented), func(t *testing.T) {
			inNode(t, test.evented, func(n *node) {
				n.newCalls(10 * time.Second)
				count := func(what string, wait time.Duration, want string) {
					t.Helper()
					testutil.Equal(t, n.newCalls(wait), want, "%s", what)
				}
				pod := testPod("pod", false)
				n.workers.Update(pod)
				count("start", 10*time.Second, test.start)
				count("idle", 10*time.Minute, test.idle)
				container := n.opts.Cache.Peek(pod.UID).Containers[0]
				testutil.Must(t, n.evented.StopContainer(t.Context(), container.ID, 0))
				count("restart", 10*time.Second, test.restart)
				testutil.Assert(t, n.running(t, pod), "the container does not run again")
				n.newCalls(0)
				n.workers.Terminate(pod, podworkers.Termination{})
				count("end", 10*time.Second, test.end)
				count("over", 10*time.Minute, test.over)
			})
		})
	}
}

// TestPodNamedAgain: a pod runs again if its source drops it and names it again with the same UID. The source does so
// while the pod ends, after its end, or after the pod has completed.
func TestPodNamedAgain(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
		for _, pause := range []time.Duration{0, 10 * time.Second} {
			for _, completed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, completed %v, %v", policy, completed, pause), func(t *testing.T) {
					inNode(t, true, func(n *node) { n.nameAgain(t, policy, pause, completed) })
				})
			}
		}
	}
}

func (n *node) nameAgain(t *testing.T, policy v1.RestartPolicy, pause time.Duration, completed bool) {
	pod := testPod("pod", false)
	pod.Spec.RestartPolicy = policy
	n.workers.Update(pod)
	n.newCalls(10 * time.Second)
	if completed {
		container := n.opts.Cache.Peek(pod.UID).Containers[0]
		testutil.Must(t, n.evented.StopContainer(t.Context(), container.ID, 0))
		n.newCalls(10 * time.Second)
	}
	n.workers.Terminate(pod, podworkers.Termination{Gone: true})
	n.newCalls(pause)
	n.workers.Update(pod)
	n.newCalls(10 * time.Second)
	shown := n.opts.Status.Status(pod)
	testutil.Assert(t, n.running(t, pod) && shown.Phase == v1.PodRunning && shown.Reason == "",
		"running %v, status %+v", n.running(t, pod), shown)
	testutil.Assert(t, time.Since(shown.StartTime.Time) < 11*time.Second, "the start time %v is the earlier pod's",
		shown.StartTime)
	testutil.Assert(t, !n.isForgotten(pod.UID), "the next sync would remove the running pod")
}
