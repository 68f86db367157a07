package server

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// A cached answer is used for its own snapshot only, and never with a filter. The client receives the same list.
func TestCachedListsFollowTheCache(t *testing.T) {
	n := newNode()
	putPods(n)
	client := runtimeapi.NewRuntimeServiceClient(n.dial(t))
	for round := range 6 {
		containers, err := n.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		testutil.Must(t, err)
		pods, err := n.ListPodSandbox(t.Context(),
			&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{}})
		testutil.Must(t, err)
		got, want := len(containers.GetContainers()), len(n.cache.Snapshot().Containers())
		testutil.Assert(t, got == want, "round %d: %d containers, want %d", round, got, want)
		for range 2 {
			receivedContainers, err := client.ListContainers(t.Context(),
				&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{}})
			testutil.Must(t, err)
			receivedPods, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
			testutil.Must(t, err)
			testutil.Assert(t, proto.Equal(receivedContainers, containers) && proto.Equal(receivedPods, pods),
				"round %d: received %v and %v, want %v and %v", round, receivedContainers, receivedPods,
				containers, pods)
		}
		some, err := client.ListContainers(t.Context(),
			&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
				LabelSelector: map[string]string{"index": "1"},
			}})
		testutil.Must(t, err)
		if got := len(some.GetContainers()); got == 0 || got >= len(containers.GetContainers()) {
			t.Errorf("round %d: the filter lets %d of %d containers pass", round, got, len(containers.GetContainers()))
		}
		last := containers.GetContainers()[0].GetId()
		switch round % 3 {
		case 0:
			n.cache.UpdateContainer(last, func(s *state.ContainerStatus) { s.Running = !s.Running })
		case 1:
			n.cache.RemoveContainer(last)
		case 2:
			n.cache.UpdatePod(pods.GetItems()[0].GetId(), func(s *state.PodStatus) { s.Stopping = true })
		}
	}
}

// TestCodecEncodesOtherMessagesItself includes messages that look like a cached list.
func TestCodecEncodesOtherMessagesItself(t *testing.T) {
	var list listCache
	c := newCodec(&list)
	kept := &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "kept"}}}
	list.answer(&state.Snapshot{}, func() proto.Message { return kept })
	for _, message := range []proto.Message{kept, proto.Clone(kept), &runtimeapi.VersionResponse{Version: "1"},
		&runtimeapi.ListContainersResponse{}} {
		encoded, err := c.Marshal(message)
		testutil.Must(t, err)
		decoded := message.ProtoReflect().New().Interface()
		testutil.Must(t, c.Unmarshal(encoded, decoded))
		testutil.Assert(t, proto.Equal(decoded, message), "got %v, want %v", decoded, message)
	}
	_, err := c.Marshal("not a message")
	testutil.Assert(t, err != nil, "the codec encoded a string, which is no protobuf message")
}
