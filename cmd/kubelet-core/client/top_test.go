package client

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestTop: WriteTop shows pods or containers, in each order. Unknown usage comes last.
func TestTop(t *testing.T) {
	pod := func(namespace, name string, nanoCores, bytes uint64) statsapi.PodStats {
		cpu, memory := &statsapi.CPUStats{UsageNanoCores: &nanoCores}, &statsapi.MemoryStats{WorkingSetBytes: &bytes}
		return statsapi.PodStats{
			PodRef: statsapi.PodReference{Namespace: namespace, Name: name}, CPU: cpu, Memory: memory,
			Containers: []statsapi.ContainerStats{{Name: "c", CPU: cpu, Memory: memory}},
		}
	}
	summary := &statsapi.Summary{
		Node: statsapi.NodeStats{NodeName: "n", CPU: &statsapi.CPUStats{UsageNanoCores: ptr.To[uint64](2e9)}},
		Pods: []statsapi.PodStats{
			{PodRef: statsapi.PodReference{Namespace: "a", Name: "new"}}, pod("b", "small", 500_000, 3<<20),
			pod("a", "large", 1_500_000_000, 2<<20)},
	}
	for _, test := range []struct {
		opts TopOptions
		want string
	}{
		{TopOptions{}, `
NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)
a           large   1500m        2Mi
a           new     <unknown>    <unknown>
b           small   1m           3Mi
`},
		{TopOptions{Sort: "cpu"}, `
NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)
a           large   1500m        2Mi
b           small   1m           3Mi
a           new     <unknown>    <unknown>
`},
		{TopOptions{Sort: "memory", Containers: true}, `
NAMESPACE   NAME    CONTAINER   CPU(cores)   MEMORY(bytes)
b           small   c           1m           3Mi
a           large   c           1500m        2Mi
`},
		{TopOptions{Namespace: "b"}, `
NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)
b           small   1m           3Mi
`},
	} {
		var out strings.Builder
		testutil.Must(t, WriteTop(&out, summary, test.opts))
		testutil.Equal(t, "\n"+out.String(), test.want, "%+v", test.opts)
	}
	var out strings.Builder
	testutil.Must(t, WriteTopNode(&out, summary))
	testutil.Equal(t, "\n"+out.String(), "\nNAME   CPU(cores)   MEMORY(bytes)\nn      2000m        <unknown>\n", "node")
	testutil.Assert(t, errdefs.IsInvalidArgument(WriteTop(&out, summary, TopOptions{Sort: "age"})), "--sort-by age")
}
