package server

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// putPods fills a node with the pods "aa…" to "ad…". Each has two containers, "ca…-0" and so on. Every second pod
// is stopped.
func putPods(n *node) {
	for i, letter := range []string{"a", "b", "c", "d"} {
		id := "a" + letter + strings.Repeat("0", 62)
		n.cache.PutPod(state.Pod{
			ID: id,
			Meta: state.PodMeta{
				Config: &runtimeapi.PodSandboxConfig{
					Metadata:    &runtimeapi.PodSandboxMetadata{Name: letter, Namespace: "default", Uid: letter},
					Labels:      map[string]string{"name": letter, "even": fmt.Sprint(i%2 == 0)},
					Annotations: map[string]string{"note": letter},
				},
				CreatedAt: time.Unix(int64(i+1), 5),
			},
			Status: state.PodStatus{Running: i%2 == 0, NetworkReady: true},
		})
		for j := range 2 {
			n.cache.PutContainer(state.Container{
				ID:        fmt.Sprintf("c%s%d%s", letter, j, strings.Repeat("0", 61)),
				SandboxID: id,
				Meta: state.ContainerMeta{
					Config: &runtimeapi.ContainerConfig{
						Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint(j)},
						Image:    &runtimeapi.ImageSpec{Image: "sha256:1"},
						Labels:   map[string]string{"index": fmt.Sprint(j)},
					},
					ImageID:   "sha256:1",
					CreatedAt: time.Unix(int64(i+1), int64(j)),
				},
				Status: state.ContainerStatus{Running: i%2 == 0},
			})
		}
	}
}

// filterCase is a filter of a list, and the wanted items.
type filterCase[F any] struct {
	filter F
	want   []string
}

// checkFilters asks for a list with one filter after the other.
func checkFilters[F any](t *testing.T, cases map[string]filterCase[F], list func(F) ([]string, error)) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := list(test.filter)
			testutil.Must(t, err)
			testutil.Assert(t, slices.Equal(got, test.want), "got %v, want %v", got, test.want)
		})
	}
}

// each returns the text of every item.
func each[T any](items []T, text func(T) string) []string {
	var all []string
	for _, item := range items {
		all = append(all, text(item))
	}
	return all
}

func TestListPodSandboxFilters(t *testing.T) {
	n := newNode()
	putPods(n)
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	checkFilters(t, map[string]filterCase[*runtimeapi.PodSandboxFilter]{ // names, newest first
		"none":  {nil, []string{"d", "c", "b", "a"}},
		"empty": {&runtimeapi.PodSandboxFilter{}, []string{"d", "c", "b", "a"}},
		"id": {&runtimeapi.PodSandboxFilter{Id: "ab" + strings.Repeat("0", 62)},
			[]string{"b"}},
		"prefix":        {&runtimeapi.PodSandboxFilter{Id: "ac0"}, []string{"c"}},
		"prefix of all": {&runtimeapi.PodSandboxFilter{Id: "a"}, []string{"d", "c", "b", "a"}},
		"unknown id":    {&runtimeapi.PodSandboxFilter{Id: "f"}, nil},
		"state":         {&runtimeapi.PodSandboxFilter{State: ready}, []string{"c", "a"}},
		"label": {
			&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"even": "false"}}, []string{"d", "b"}},
		"labels": {
			&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"even": "true", "name": "a"}}, []string{"a"}},
		"missing label": {&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"odd": ""}},
			nil},
		"all parts": {
			&runtimeapi.PodSandboxFilter{Id: "aa", State: ready, LabelSelector: map[string]string{"name": "a"}},
			[]string{"a"}},
		"parts that exclude each other": {&runtimeapi.PodSandboxFilter{Id: "ab", State: ready}, nil},
	}, func(filter *runtimeapi.PodSandboxFilter) ([]string, error) {
		answer, err := n.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: filter})
		return each(answer.GetItems(), func(p *runtimeapi.PodSandbox) string { return p.GetMetadata().GetName() }), err
	})
}

func TestListContainersFilters(t *testing.T) {
	n := newNode()
	putPods(n)
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	checkFilters(t, map[string]filterCase[*runtimeapi.ContainerFilter]{ // beginnings of ids, newest first
		"none":   {nil, []string{"cd1", "cd0", "cc1", "cc0", "cb1", "cb0", "ca1", "ca0"}},
		"prefix": {&runtimeapi.ContainerFilter{Id: "cb"}, []string{"cb1", "cb0"}},
		"pod": {&runtimeapi.ContainerFilter{PodSandboxId: "ac" + strings.Repeat("0", 62)},
			[]string{"cc1", "cc0"}},
		"prefix of a pod": {&runtimeapi.ContainerFilter{PodSandboxId: "ac"}, []string{"cc1", "cc0"}},
		"state":           {&runtimeapi.ContainerFilter{State: running}, []string{"cc1", "cc0", "ca1", "ca0"}},
		"label": {&runtimeapi.ContainerFilter{LabelSelector: map[string]string{"index": "1"}},
			[]string{"cd1", "cc1", "cb1", "ca1"}},
		"all parts": {
			&runtimeapi.ContainerFilter{Id: "c", PodSandboxId: "aa", State: running,
				LabelSelector: map[string]string{"index": "0"}}, []string{"ca0"}},
	}, func(filter *runtimeapi.ContainerFilter) ([]string, error) {
		answer, err := n.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: filter})
		return each(answer.GetContainers(), func(c *runtimeapi.Container) string { return c.GetId()[:3] }), err
	})
}

// TestStreamsSendWhatListsReturn compares each streamed list with the unary one.
func TestStreamsSendWhatListsReturn(t *testing.T) {
	n := newNode()
	putPods(n)
	n.images.present["busybox"] = true
	conn := n.dial(t)
	runtime, images := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)

	pods, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	testutil.Must(t, err)
	podStream, err := runtime.StreamPodSandboxes(t.Context(), &runtimeapi.StreamPodSandboxesRequest{})
	testutil.Must(t, err)
	sameItems(t, pods.GetItems(), podStream, (*runtimeapi.StreamPodSandboxesResponse).GetPodSandboxes)

	containers, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	testutil.Must(t, err)
	containerStream, err := runtime.StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
	testutil.Must(t, err)
	sameItems(t, containers.GetContainers(), containerStream, (*runtimeapi.StreamContainersResponse).GetContainers)

	list, err := images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	testutil.Must(t, err)
	imageStream, err := images.StreamImages(t.Context(), &runtimeapi.StreamImagesRequest{})
	testutil.Must(t, err)
	sameItems(t, list.GetImages(), imageStream, (*runtimeapi.StreamImagesResponse).GetImages)
}

func receive[R, T any](t *testing.T, stream grpc.ServerStreamingClient[R], of func(*R) []T) []T {
	t.Helper()
	var all []T
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		testutil.Must(t, err)
		batch := of(response)
		testutil.Assert(t, len(batch) != 0, "an empty batch")
		all = append(all, batch...)
	}
}

// sameItems checks that a stream sends the items of a list.
func sameItems[R any, T proto.Message](t *testing.T, want []T, stream grpc.ServerStreamingClient[R], of func(*R) []T) {
	t.Helper()
	got := receive(t, stream, of)
	testutil.Assert(t, len(want) != 0, "nothing to compare")
	testutil.Assert(t, slices.EqualFunc(want, got, func(a, b T) bool { return proto.Equal(a, b) }),
		"the stream sent %v, the list has %v", got, want)
}

func TestPieces(t *testing.T) {
	item := func(size int) *runtimeapi.Image { return &runtimeapi.Image{Id: strings.Repeat("x", size)} }
	for _, test := range []struct {
		name  string
		sizes []int
		want  []int // items per batch
	}{
		{"none", nil, nil},
		{"one", []int{10}, []int{1}},
		{"small ones", []int{10, 10, 10}, []int{3}},
		{"one above the limit", []int{2 * batchSize}, []int{1}},
		{"large between small", []int{10, 2 * batchSize, 10}, []int{1, 1, 1}},
		{"many", []int{batchSize / 2, batchSize / 3, batchSize / 3, batchSize / 2}, []int{2, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var items []*runtimeapi.Image
			for _, size := range test.sizes {
				items = append(items, item(size))
			}
			var batches []int
			var sent []*runtimeapi.Image
			err := sendBatches(items, func(batch []*runtimeapi.Image) error {
				batches, sent = append(batches, len(batch)), append(sent, batch...)
				return nil
			})
			testutil.Assert(t, err == nil && slices.Equal(batches, test.want) && slices.Equal(sent, items),
				"sent %v, %v, want %v", batches, err, test.want)
		})
	}
	broken := errors.New("the client is gone")
	err := sendBatches([]*runtimeapi.Image{item(batchSize), item(batchSize), item(batchSize)},
		func([]*runtimeapi.Image) error { return broken })
	testutil.Assert(t, errors.Is(err, broken), "got %v, want the error of the stream", err)
}

// No list is answered before the first relist, because an empty list would make a kubelet start every pod again.
func TestNothingIsAnsweredBeforeTheFirstSync(t *testing.T) {
	n := nodeWithPod()
	n.cache.unsynced = true
	conn := n.dial(t)
	n.firstSync, n.longestSync = time.Millisecond, time.Millisecond
	for _, r := range allRPCs(t) {
		switch r.name {
		case "ListPodSandbox", "StopPodSandbox", "RemoveContainer", "StreamContainers":
		default:
			continue
		}
		for _, engineErr := range []error{nil, errAway} {
			n.cache.err = engineErr
			err := r.call(t.Context(), conn, fullRequest(r))
			testutil.Assert(t, status.Code(err) == codes.Unavailable, "%s: %v, want Unavailable", r.name, err)
		}
	}
	n.cache.unsynced, n.cache.err = false, nil
	response, err := n.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	testutil.Assert(t, err == nil && len(response.GetItems()) == 1, "after the sync: %v, %v", response, err)
}

// After the first relist, lists answer from memory while the engine is away.
func TestListsGoOnWhileTheEngineIsAway(t *testing.T) {
	n := nodeWithPod()
	_, err := n.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	testutil.Must(t, err)
	n.cache.unsynced, n.cache.err, n.engine.err = true, errAway, errAway
	response, err := n.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	testutil.Assert(t, err == nil && len(response.GetContainers()) == 1, "got %v, %v", response, err)
}
