package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

type eventStream = grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]

// subscribe returns a stream that gets every event from now on, until the context ends.
func subscribe(ctx context.Context, t *testing.T, conn *grpc.ClientConn) eventStream {
	t.Helper()
	stream, err := runtimeapi.NewRuntimeServiceClient(conn).GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	testutil.Must(t, err)
	_, err = stream.Header()
	testutil.Must(t, err)
	return stream
}

// next receives one event as "TYPE id".
func next(t *testing.T, stream eventStream) (string, *runtimeapi.ContainerEventResponse) {
	t.Helper()
	event, err := stream.Recv()
	testutil.Must(t, err)
	kind := strings.TrimSuffix(strings.TrimPrefix(event.GetContainerEventType().String(), "CONTAINER_"), "_EVENT")
	return kind + " " + event.GetContainerId(), event
}

// TestEventsOfAPodsLife takes a pod through all services, and checks the parts of each event that the kubelet reads.
func TestEventsOfAPodsLife(t *testing.T) {
	w := newStack(t)
	stream := subscribe(t.Context(), t, w.conn)
	ctx := t.Context()
	testutil.Must(t, w.runPod(ctx))
	_, err := w.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: w.container, Timeout: 1})
	testutil.Must(t, err)
	_, err = w.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: w.container})
	testutil.Must(t, err)
	_, err = w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: w.pod})
	testutil.Must(t, err)
	_, err = w.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: w.pod})
	testutil.Must(t, err)
	last := int64(0)
	for _, want := range []struct {
		event      string
		pod        runtimeapi.PodSandboxState
		containers []runtimeapi.ContainerState
	}{
		{"CREATED " + w.pod, runtimeapi.PodSandboxState_SANDBOX_READY, nil},
		{"STARTED " + w.pod, runtimeapi.PodSandboxState_SANDBOX_READY, nil},
		{"CREATED " + w.container, runtimeapi.PodSandboxState_SANDBOX_READY,
			[]runtimeapi.ContainerState{runtimeapi.ContainerState_CONTAINER_CREATED}},
		{"STARTED " + w.container, runtimeapi.PodSandboxState_SANDBOX_READY,
			[]runtimeapi.ContainerState{runtimeapi.ContainerState_CONTAINER_RUNNING}},
		{"STOPPED " + w.container, runtimeapi.PodSandboxState_SANDBOX_READY,
			[]runtimeapi.ContainerState{runtimeapi.ContainerState_CONTAINER_EXITED}},
		{"DELETED " + w.container, runtimeapi.PodSandboxState_SANDBOX_READY, nil},
		{"STOPPED " + w.pod, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, nil},
		{"DELETED " + w.pod, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, nil},
	} {
		got, event := next(t, stream)
		var states []runtimeapi.ContainerState
		for _, c := range event.GetContainersStatuses() {
			states = append(states, c.GetState())
		}
		pod := event.GetPodSandboxStatus()
		testutil.Assert(t, got == want.event && pod.GetState() == want.pod && slices.Equal(states, want.containers),
			"got %s with pod %v and containers %v, want %+v", got, pod.GetState(), states, want)
		testutil.Assert(t, pod.GetId() == w.pod && pod.GetMetadata().GetUid() == "web-uid",
			"%s names the pod %v", got, pod)
		testutil.Assert(t, event.GetCreatedAt() >= last, "%s is older than the event before", got)
		last = event.GetCreatedAt()
	}
}

// A kubelet replaces its status of a pod with the status in the event. It forgets the pod after an event that describes
// the removed sandbox. It must keep the status of the pod's newest sandbox, even if the clock was set back before that
// sandbox was made.
func TestEventsOfAnOldAttemptDescribeTheNewOne(t *testing.T) {
	for name, created := range map[string]time.Time{"later": time.Unix(1, 0), "earlier": time.Unix(-1, 0)} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			putAttempt(n, 0, "old", time.Unix(0, 0))
			putAttempt(n, 1, "new", created)
			describesNewAttempt(t, n)
		})
	}
}

// putAttempt adds a sandbox of one pod, and its container.
func putAttempt(n *node, attempt uint32, id string, created time.Time) {
	n.cache.PutPod(state.Pod{ID: id, Meta: state.PodMeta{
		CreatedAt: created,
		Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u1", Attempt: attempt},
			Labels:   map[string]string{state.LabelPodUID: "u1"},
		}}, Status: state.PodStatus{Running: true, NetworkReady: true}})
	n.cache.PutContainer(state.Container{ID: id + "-main", SandboxID: id,
		Status: state.ContainerStatus{Running: true}})
}

// describesNewAttempt ends both sandboxes, and checks that each event describes the new one.
func describesNewAttempt(t *testing.T, n *node) {
	t.Helper()
	stream := subscribe(t.Context(), t, n.dial(t))
	for _, c := range []struct {
		change            func()
		event, containers string
	}{
		{func() {
			n.cache.UpdateContainer("old-main", func(s *state.ContainerStatus) {
				s.Running, s.FinishedAt = false, time.Unix(2, 0)
			})
		}, "STOPPED old-main", "new-main"},
		{func() { n.cache.RemoveContainer("old-main") }, "DELETED old-main", "new-main"},
		{func() { n.cache.EndPod("old") }, "STOPPED old", "new-main"},
		{func() { n.cache.RemovePod("old") }, "DELETED old", "new-main"},
		{func() { n.cache.EndPod("new") }, "STOPPED new", "new-main"},
		{func() { n.cache.RemovePod("new") }, "DELETED new", "new-main"},
	} {
		c.change()
		got, event := next(t, stream)
		var containers []string
		for _, container := range event.GetContainersStatuses() {
			containers = append(containers, container.GetId())
		}
		testutil.Assert(t, got == c.event && event.GetPodSandboxStatus().GetId() == "new" &&
			strings.Join(containers, " ") == c.containers, "received %s: %v, want %s", got, event, c.event)
	}
}

// TestEventsWaitWhileNothingHappens checks that a stream sends nothing while nothing happens, and ends with its client.
func TestEventsWaitWhileNothingHappens(t *testing.T) {
	n := nodeWithPod()
	ctx, cancel := context.WithCancel(t.Context())
	stream := subscribe(ctx, t, n.dial(t))
	received := testutil.Go(func() error {
		_, err := stream.Recv()
		return err
	})
	select {
	case err := <-received:
		t.Fatalf("received %v though nothing happened", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	err := <-received
	testutil.Assert(t, status.Code(err) == codes.Canceled, "the stream ended with %v", err)
}

// A slow client gets an error, and all others get all events. Writes to the cache do not wait for the slow client.
func TestSlowClientIsCutOff(t *testing.T) {
	n := nodeWithPod()
	slow, quick := subscribe(t.Context(), t, n.dial(t)), subscribe(t.Context(), t, n.dial(t))
	const changes = 20000 // more than the queues, gRPC and the sockets hold
	var reading sync.WaitGroup
	reading.Go(func() {
		for i := range changes {
			event, err := quick.Recv()
			if err != nil || event.GetContainerId() != fmt.Sprint("c", i) {
				t.Errorf("the quick client's event %d is %v, %v", i, event, err)
				return
			}
		}
	})
	for i := range changes {
		n.cache.PutContainer(state.Container{ID: fmt.Sprint("c", i), Meta: state.ContainerMeta{
			Config: &runtimeapi.ContainerConfig{Annotations: map[string]string{"note": strings.Repeat("x", 100)}},
		}})
		if i%100 == 0 {
			time.Sleep(time.Millisecond) // lets the quick client read
		}
	}
	reading.Wait()
	received := 0
	for {
		_, err := slow.Recv()
		if err == nil {
			received++
			continue
		}
		testutil.Assert(t, status.Code(err) == codes.ResourceExhausted, "the slow client ended with %v", err)
		break
	}
	testutil.Assert(t, received != 0 && received < changes,
		"the slow client received %d of %d events", received, changes)
}

// TestEventsEndWithTheServer checks that a graceful stop does not wait for a client that never hangs up.
func TestEventsEndWithTheServer(t *testing.T) {
	n := nodeWithPod()
	stream := subscribe(t.Context(), t, n.dial(t))
	n.EndStreams()
	event, err := stream.Recv()
	testutil.Assert(t, status.Code(err) == codes.Unavailable, "received %v, %v", event, err)
}

// TestEventsWaitForTheFirstSync checks that a stream of events, like a list, fails before the first relist.
func TestEventsWaitForTheFirstSync(t *testing.T) {
	n := nodeWithPod()
	n.cache.unsynced = true
	conn := n.dial(t)
	n.firstSync, n.longestSync = time.Millisecond, time.Millisecond
	stream, err := runtimeapi.NewRuntimeServiceClient(conn).GetContainerEvents(t.Context(),
		&runtimeapi.GetEventsRequest{})
	testutil.Must(t, err)
	event, err := stream.Recv()
	testutil.Assert(t, status.Code(err) == codes.Unavailable, "received %v, %v", event, err)
}
