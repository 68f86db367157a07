package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
)

// sized is a pod with requests of CPU and memory. A guaranteed pod has limits, too.
func sized(name string, priority int32, cpu, memory string, guaranteed bool) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID, pod.Spec.Priority = name, types.UID(name), &priority
	requests := v1.ResourceList{}
	if cpu != "" {
		requests[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[v1.ResourceMemory] = resource.MustParse(memory)
	}
	c := v1.Container{Name: "c", Image: "image", Resources: v1.ResourceRequirements{Requests: requests}}
	if guaranteed {
		c.Resources.Limits = requests
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

const systemPriority = model.SystemCriticalPriority

func TestVictims(t *testing.T) {
	cpu := func(milli int64) []shortage { return []shortage{{name: v1.ResourceCPU, requested: milli}} }
	others := func() []*v1.Pod {
		return []*v1.Pod{
			sized("best-effort", 0, "", "", false), sized("small", 0, "100m", "1Gi", false),
			sized("large", 0, "900m", "1Gi", false), sized("guaranteed", 0, "1", "2Gi", true),
			sized("critical", systemPriority, "4", "8Gi", true),
		}
	}
	for name, test := range map[string]struct {
		missing []shortage
		want    string // "-" if the pod does not fit
	}{
		"the nearest":        {cpu(50), "small"},
		"a larger one":       {cpu(500), "large"},
		"two of a class":     {cpu(950), "small large"},
		"a guaranteed one":   {cpu(1500), "large guaranteed"},
		"all":                {cpu(2000), "small large guaranteed"},
		"too much":           {cpu(2001), "-"},
		"the number of pods": {[]shortage{{name: v1.ResourcePods, requested: 1}}, "best-effort"},
		"two resources": {append(cpu(100), shortage{name: v1.ResourceMemory, requested: 3 << 30}),
			"small guaranteed"},
		"a resource that no pod has": {[]shortage{{name: "example.com/card", requested: 1}}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, ok := victims(sized("new", systemPriority, "1", "1Gi", false), others(), test.missing)
			var names []string
			for _, pod := range chosen {
				names = append(names, pod.Name)
			}
			got := strings.Join(names, " ")
			if !ok {
				got = "-"
			}
			testutil.Equal(t, got, test.want, "victims")
		})
	}
	chosen, ok := victims(sized("new", systemPriority+1000, "1", "1Gi", false), others(), cpu(3000))
	testutil.Assert(t, ok && len(chosen) > 0, "a pod of a higher priority does not preempt a critical one: %v", chosen)
}

// fixedNode is a node with two CPUs. RefreshNode returns the same node as Node.
type fixedNode struct{}

func (n fixedNode) RefreshNode(context.Context) (*v1.Node, bool, error) { return n.Node(), true, nil }

func (fixedNode) Node() *v1.Node {
	allocatable := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("10")}
	return &v1.Node{Status: v1.NodeStatus{Allocatable: allocatable}}
}

// lostNode is a fixedNode that cannot be fetched.
type lostNode struct {
	fixedNode
	known bool
}

func (n lostNode) RefreshNode(context.Context) (*v1.Node, bool, error) {
	return n.Node(), n.known, errors.New("the API server is away")
}

// TestNodeThatCannotBeFetched: before the node is registered, the scheduler is trusted about the labels. Later the last
// observed labels count.
func TestNodeThatCannotBeFetched(t *testing.T) {
	for _, known := range []bool{false, true} {
		a := NewAdmitter(Options{
			Node: lostNode{known: known}, Active: func() []*v1.Pod { return nil },
			Observed: func(types.UID) bool { return false }, ShutdownErr: func() error { return nil },
			Rejections: NewRejections(), Status: status.NewManager(), Events: events.New("here"),
		})
		pod := sized("selective", 0, "1", "", false)
		pod.Spec.NodeSelector = map[string]string{"disk": "fast"}
		testutil.Equal(t, a.Admit(t.Context(), pod), !known, "admitted, with known %v", known)
	}
}

// TestCriticalPodPreempts admits a critical pod on a full node, and ends another for it. Other pods and other reasons
// preempt nothing.
func TestCriticalPodPreempts(t *testing.T) {
	running := []*v1.Pod{sized("app", 0, "1500m", "", false)}
	var ended []string
	a := NewAdmitter(Options{
		Node: fixedNode{}, Active: func() []*v1.Pod { return running },
		Observed: func(types.UID) bool { return false }, ShutdownErr: func() error { return nil },
		Preempt: func(pod *v1.Pod, why model.Failure) {
			testutil.Equal(t, why.Reason, "Preempting", "reason")
			ended = append(ended, pod.Name)
		},
		Rejections: NewRejections(), Status: status.NewManager(), Events: events.New("here"),
	})
	admit := func(pod *v1.Pod) bool { return a.Admit(t.Context(), pod) }
	testutil.Assert(t, !admit(sized("plain", 100, "1", "", false)) && len(ended) == 0,
		"a pod without a system priority preempted %q", ended)
	selective := sized("selective", systemPriority, "1", "", false)
	selective.Spec.NodeSelector = map[string]string{"disk": "fast"}
	testutil.Assert(t, !admit(selective) && len(ended) == 0, "a pod of another node preempted %q", ended)
	testutil.Assert(t, !admit(sized("huge", systemPriority, "3", "", false)) && len(ended) == 0,
		"a pod that never fits preempted %q", ended)
	testutil.Assert(t, admit(sized("critical", systemPriority, "1", "", false)), "the critical pod is rejected")
	testutil.Equal(t, strings.Join(ended, " "), "app", "preempted pods")
}
