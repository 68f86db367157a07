package e2e

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Lists and statuses cost no engine call, however often clients ask for them.
func TestListsAskTheEngineNothing(t *testing.T) {
	env := rigenv.Require(t)
	counter := countCalls(t, env)
	w := newWorkerWith(t, adapter.Options{Env: env, Flags: []string{"--docker-endpoint=unix://" + counter.path}})
	testutil.Require(t, len(counter.taken()) > 0, "the server does not use the counting proxy")
	counter.awaitSilence(t)
	runtime := runtimeapi.NewRuntimeServiceClient(w.server.Conn)
	for range 60 {
		pods, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
		testutil.Must(t, err)
		containers, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		testutil.Must(t, err)
		same(t, "pods", len(pods.GetItems()), 1)
		same(t, "containers", len(containers.GetContainers()), 1)
		_, err = runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: w.pod})
		testutil.Must(t, err)
		_, err = runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: w.container})
		testutil.Must(t, err)
		podStream, err := runtime.StreamPodSandboxes(t.Context(), &runtimeapi.StreamPodSandboxesRequest{})
		testutil.Must(t, err)
		same(t, "streamed pods", received(t, podStream), 1)
		containerStream, err := runtime.StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
		testutil.Must(t, err)
		same(t, "messages with streamed containers", received(t, containerStream), 1)
	}
	calls := counter.taken()
	testutil.Assert(t, len(calls) == 0, "the engine was asked: %v", calls)
}

// received reads a stream to its end and returns the number of its messages.
func received[T any](t *testing.T, stream grpc.ServerStreamingClient[T]) int {
	t.Helper()
	for count := 0; ; count++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return count
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// watcher is a client that follows the server's container events.
type watcher struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]
	leave  context.CancelFunc
}

func watch(t *testing.T, server *adapter.Server) *watcher {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	stream, err := runtimeapi.NewRuntimeServiceClient(server.Conn).GetContainerEvents(ctx,
		&runtimeapi.GetEventsRequest{})
	testutil.Must(t, err)
	_, err = stream.Header() // after the header, the stream misses no event
	testutil.Must(t, err)
	return &watcher{t, stream, leave}
}

// expect receives the next event, which must be of this kind and object, with a pod and containers in these states.
func (w *watcher) expect(kind, id, pod string, containers ...string) *runtimeapi.ContainerEventResponse {
	w.t.Helper()
	event, err := w.stream.Recv()
	testutil.Must(w.t, err)
	trim := func(text string) string { return text[strings.Index(text, "_")+1:] }
	var states []string
	for _, c := range event.GetContainersStatuses() {
		states = append(states, trim(c.GetState().String()))
	}
	slices.Sort(states)
	gotKind := strings.TrimSuffix(trim(event.GetContainerEventType().String()), "_EVENT")
	gotPod := trim(event.GetPodSandboxStatus().GetState().String())
	if gotKind != kind || event.GetContainerId() != id || gotPod != pod || !slices.Equal(states, containers) {
		w.t.Fatalf("%s of %s with a pod %s and containers %v; want %s of %s, %s, %v", gotKind, event.GetContainerId(),
			gotPod, states, kind, id, pod, containers)
	}
	return event
}

// Two clients follow the events of a pod on a real engine. One container of the pod ends by itself. When one client
// leaves, the other client loses no event. While nothing happens, no event comes.
func TestEventsOfAPod(t *testing.T) {
	c := newCrictl(t)
	first, second := watch(t, c.server), watch(t, c.server)
	p := c.runPod()
	stays := c.container(p, "stays", shellImage, "sleep", "1000")
	ends := c.container(p, "ends", shellImage, "sh", "-c", "sleep 0.5; exit 3")
	for _, w := range []*watcher{first, second} {
		w.expect("CREATED", p.id, "READY")
		w.expect("STARTED", p.id, "READY")
		w.expect("CREATED", stays, "READY", "CREATED")
		w.expect("STARTED", stays, "READY", "RUNNING")
		w.expect("CREATED", ends, "READY", "CREATED", "RUNNING")
		w.expect("STARTED", ends, "READY", "RUNNING", "RUNNING")
		event := w.expect("STOPPED", ends, "READY", "EXITED", "RUNNING")
		for _, status := range event.GetContainersStatuses() {
			if status.GetId() == ends && status.GetExitCode() != 3 {
				t.Errorf("the event says exit code %d", status.GetExitCode())
			}
		}
		same(t, "the pod of the event", event.GetPodSandboxStatus().GetMetadata().GetName(), p.name)
	}
	first.leave()
	_, err := first.stream.Recv()
	testutil.Assert(t, status.Code(err) == codes.Canceled, "the stream of a client that left ends with %v", err)
	removed := make(chan error, 1)
	began := time.Now()
	time.AfterFunc(time.Second, func() { removed <- c.server.Runtime.RemoveContainer(t.Context(), ends) })
	second.expect("DELETED", ends, "READY", "RUNNING")
	testutil.Must(t, <-removed)
	waited := time.Since(began)
	testutil.Assert(t, waited >= time.Second, "an event came after %s, though nothing had happened", waited)
	c.run("stopp", p.id)
	second.expect("STOPPED", stays, "NOTREADY", "EXITED") // a pod is NOTREADY once its stop begins
	second.expect("STOPPED", p.id, "NOTREADY", "EXITED")
	c.run("rmp", p.id)
	second.expect("DELETED", stays, "NOTREADY")
	second.expect("DELETED", p.id, "NOTREADY")
}
