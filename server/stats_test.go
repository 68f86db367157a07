package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// newestPods and newestContainers are the ids that putPods makes, in the order of a list.
var (
	newestPods       = full("ad", "ac", "ab", "aa")
	newestContainers = full("cd1", "cd0", "cc1", "cc0", "cb1", "cb0", "ca1", "ca0")
)

// full pads the beginnings of ids to whole ids.
func full(beginnings ...string) []string {
	var ids []string
	for _, beginning := range beginnings {
		ids = append(ids, beginning+strings.Repeat("0", 64-len(beginning)))
	}
	return ids
}

func TestListContainerStatsFilters(t *testing.T) {
	n := newNode()
	putPods(n)
	checkFilters(t, map[string]filterCase[*runtimeapi.ContainerStatsFilter]{
		"none":      {nil, newestContainers},
		"empty":     {&runtimeapi.ContainerStatsFilter{}, newestContainers},
		"id":        {&runtimeapi.ContainerStatsFilter{Id: full("cb1")[0]}, full("cb1")},
		"beginning": {&runtimeapi.ContainerStatsFilter{Id: "cb"}, full("cb1", "cb0")},
		"pod":       {&runtimeapi.ContainerStatsFilter{PodSandboxId: "aa"}, full("ca1", "ca0")},
		"label": {&runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"index": "0"}},
			full("cd0", "cc0", "cb0", "ca0")},
		"all of them": {
			&runtimeapi.ContainerStatsFilter{Id: "ca", PodSandboxId: "aa",
				LabelSelector: map[string]string{"index": "1"}}, full("ca1")},
		"unknown":       {&runtimeapi.ContainerStatsFilter{Id: "ff"}, nil},
		"unknown label": {&runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"index": "7"}}, nil},
	}, func(filter *runtimeapi.ContainerStatsFilter) ([]string, error) {
		answer, err := n.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{Filter: filter})
		return each(answer.GetStats(), func(s *runtimeapi.ContainerStats) string {
			return s.GetAttributes().GetId()
		}), err
	})
}

func TestListPodSandboxStatsFilters(t *testing.T) {
	n := newNode()
	putPods(n)
	checkFilters(t, map[string]filterCase[*runtimeapi.PodSandboxStatsFilter]{
		"none":      {nil, newestPods},
		"id":        {&runtimeapi.PodSandboxStatsFilter{Id: full("ab")[0]}, full("ab")},
		"beginning": {&runtimeapi.PodSandboxStatsFilter{Id: "ab"}, full("ab")},
		"label": {&runtimeapi.PodSandboxStatsFilter{LabelSelector: map[string]string{"even": "true"}},
			full("ac", "aa")},
		"both": {&runtimeapi.PodSandboxStatsFilter{Id: "ab", LabelSelector: map[string]string{"even": "true"}}, nil},
	}, func(filter *runtimeapi.PodSandboxStatsFilter) ([]string, error) {
		answer, err := n.ListPodSandboxStats(t.Context(), &runtimeapi.ListPodSandboxStatsRequest{Filter: filter})
		return each(answer.GetStats(), func(s *runtimeapi.PodSandboxStats) string {
			return s.GetAttributes().GetId()
		}), err
	})
}

// ContainerStats and PodSandboxStats accept an unambiguous beginning of an id. An unknown id is NotFound.
func TestStatsOfOne(t *testing.T) {
	n := newNode()
	putPods(n)
	container, err := n.ContainerStats(t.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: "cb1"})
	testutil.Assert(t, err == nil && container.GetStats().GetAttributes().GetId() == full("cb1")[0],
		"got %v, %v", container, err)
	pod, err := n.PodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: "ab"})
	testutil.Assert(t, err == nil && pod.GetStats().GetAttributes().GetId() == full("ab")[0], "got %v, %v", pod, err)
	client := runtimeapi.NewRuntimeServiceClient(n.dial(t))
	_, err = client.ContainerStats(t.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: "ff"})
	testutil.Assert(t, status.Code(err) == codes.NotFound, "an unknown container: %v", err)
	_, err = client.PodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: "ff"})
	testutil.Assert(t, status.Code(err) == codes.NotFound, "an unknown pod: %v", err)
	_, err = client.ContainerStats(t.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: "c"})
	testutil.Assert(t, status.Code(err) == codes.InvalidArgument, "an ambiguous id: %v", err)
}

// The streams send the items that the lists return.
func TestStatsStreams(t *testing.T) {
	n := newNode()
	putPods(n)
	client := runtimeapi.NewRuntimeServiceClient(n.dial(t))

	containers, err := client.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{})
	testutil.Must(t, err)
	containerStream, err := client.StreamContainerStats(t.Context(), &runtimeapi.StreamContainerStatsRequest{})
	testutil.Must(t, err)
	sameItems(t, containers.GetStats(), containerStream, (*runtimeapi.StreamContainerStatsResponse).GetContainerStats)

	pods, err := client.ListPodSandboxStats(t.Context(), &runtimeapi.ListPodSandboxStatsRequest{})
	testutil.Must(t, err)
	podStream, err := client.StreamPodSandboxStats(t.Context(), &runtimeapi.StreamPodSandboxStatsRequest{})
	testutil.Must(t, err)
	sameItems(t, pods.GetStats(), podStream, (*runtimeapi.StreamPodSandboxStatsResponse).GetPodSandboxStats)

	metrics, err := client.ListPodSandboxMetrics(t.Context(), &runtimeapi.ListPodSandboxMetricsRequest{})
	testutil.Must(t, err)
	metricStream, err := client.StreamPodSandboxMetrics(t.Context(), &runtimeapi.StreamPodSandboxMetricsRequest{})
	testutil.Must(t, err)
	sameItems(t, metrics.GetPodMetrics(), metricStream,
		(*runtimeapi.StreamPodSandboxMetricsResponse).GetPodSandboxMetrics)
	testutil.Assert(t, len(metrics.GetPodMetrics()) == len(newestPods),
		"metrics of %d pods", len(metrics.GetPodMetrics()))
	descriptors, err := client.ListMetricDescriptors(t.Context(), &runtimeapi.ListMetricDescriptorsRequest{})
	testutil.Assert(t, err == nil && len(descriptors.GetDescriptors()) == 1, "descriptors %v, %v", descriptors, err)
}
