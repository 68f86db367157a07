package eviction

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// candidate makes a pod with a priority and requests.
func candidate(name string, priority int32, request string) *v1.Pod {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.UID, pod.Name, pod.Spec.Priority = types.UID(name), name, &priority
	if request != "" {
		amount := resource.MustParse(request)
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: amount,
			v1.ResourceEphemeralStorage: amount}
	}
	return pod
}

func names(pods []*v1.Pod) []string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return list
}

func TestRankMemory(t *testing.T) {
	const mi = 1 << 20
	pods := []*v1.Pod{
		candidate("within, low priority, much", -5, "1Gi"), candidate("within, little", 0, "100Mi"),
		candidate("within, closer", 0, "50Mi"),
		candidate("over, high priority, much", 9, "1Mi"), candidate("over, a little", 0, "10Mi"),
		candidate("over, much", 0, "100Mi"),
		candidate("no request", 0, ""), candidate("unknown", 99, "1Gi"),
	}
	stats := map[types.UID]podstats.Pod{"unknown": {}}
	for name, used := range map[types.UID]int64{
		"within, low priority, much": 900, "within, little": 20, "within, closer": 40, "over, high priority, much": 500,
		"over, a little": 11,
		"over, much":     190, "no request": 30,
	} {
		stats[name] = podstats.Pod{Memory: new(used * mi)}
	}
	want := []string{
		"unknown", "over, much", "no request", "over, a little", "over, high priority, much",
		"within, low priority, much", "within, closer", "within, little",
	}
	got := names(rank(pods, memoryUsage(stats)))
	testutil.Assert(t, slices.Equal(got, want), "got  %q\nwant %q", got, want)
}

// TestRankStorage: only usage of the scarce disk counts.
func TestRankStorage(t *testing.T) {
	pods := []*v1.Pod{candidate("writes", 0, "10"), candidate("logs", 0, "10"), candidate("fills", 0, "10")}
	stats := map[types.UID]podstats.Pod{
		"writes": {
			Containers: map[string]podstats.Container{"a": {WritableLayer: podstats.Disk{Bytes: 50, Inodes: 7}}}},
		"logs":  {Containers: map[string]podstats.Container{"a": {Logs: podstats.Disk{Bytes: 30, Inodes: 1}}}},
		"fills": {Volumes: map[string]podstats.Disk{"v": {Bytes: 20, Inodes: 9}, "w": {Bytes: 20}}},
	}
	for _, test := range []struct {
		of        signal
		dedicated bool
		want      []string
	}{
		{nodefsAvailable, false, []string{"writes", "fills", "logs"}},
		{imagefsAvailable, false, []string{"writes", "fills", "logs"}},
		{nodefsInodesFree, false, []string{"fills", "writes", "logs"}},
		{nodefsAvailable, true, []string{"fills", "logs", "writes"}},
		{imagefsAvailable, true, []string{"writes", "logs", "fills"}},
		{nodefsInodesFree, true, []string{"fills", "logs", "writes"}},
	} {
		got := names(rank(pods, storageUsage(stats, test.of, placesOf(test.of, test.dedicated))))
		testutil.Assert(t, slices.Equal(got, test.want),
			"%s, images apart %v: %q, want %q", test.of, test.dedicated, got, test.want)
	}
}

func TestLowMessage(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "init:i app:a app:b")
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("10Mi"),
		v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
	stats := podstats.Pod{Containers: map[string]podstats.Container{
		"a": {Memory: new(int64(20 << 20)), WritableLayer: podstats.Disk{Bytes: 1 << 30}},
		"b": {Memory: new(int64(1 << 20)), WritableLayer: podstats.Disk{Bytes: 1024}, Logs: podstats.Disk{Bytes: 1024}},
	}}
	for _, test := range []struct {
		low   threshold
		stats podstats.Pod
		want  string
	}{
		{threshold{signal: memoryAvailable, amount: amount{fixed: 100 << 20}}, stats,
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
				"Container a was using 20Mi, request is 10Mi, has larger consumption of memory. Container b was " +
				"using 1Mi, request is 0, has larger consumption of memory."},
		{threshold{signal: nodefsAvailable, amount: amount{part: 0.5}}, stats,
			"The node was low on resource: ephemeral-storage. Threshold quantity: 500Mi, available: 50Mi. " +
				"Container b was using 2Ki, request is 0, has larger consumption of ephemeral-storage."},
		{threshold{signal: imagefsInodesFree, amount: amount{part: 0.5}}, stats,
			"The node was low on resource: inodes. Threshold quantity: 500Mi, available: 50Mi."},
		{threshold{signal: memoryAvailable, amount: amount{fixed: 100 << 20}}, podstats.Pod{},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi."},
	} {
		testutil.Equal(t, lowMessage(test.low, observation{1000 << 20, 50 << 20}, pod, test.stats), test.want,
			"lowMessage")
	}
}
