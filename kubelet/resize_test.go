package kubelet

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podworkers"
)

// fourGi is a node with 4 GiB of memory and eight CPUs.
type fourGi struct{}

func (fourGi) Node() *v1.Node {
	room := v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourceCPU: resource.MustParse("8"),
		v1.ResourcePods: resource.MustParse("10")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: v1.NodeStatus{Allocatable: room}}
}

func (n fourGi) RefreshNode(context.Context) (*v1.Node, bool, error) { return n.Node(), true, nil }

// countedSteps counts syncs. Running containers have 1Gi.
type countedSteps struct {
	steps
	synced atomic.Int32
}

func (s *countedSteps) SyncPod(ctx context.Context, pod *v1.Pod) (bool, time.Duration, error) {
	s.synced.Add(1)
	return s.steps.SyncPod(ctx, pod)
}

func (*countedSteps) PodStatus(_ context.Context, uid types.UID) (*model.PodStatus, error) {
	return &model.PodStatus{UID: uid, ObservedAt: time.Now(), Containers: []model.ContainerStatus{
		{ID: "1", Name: "c", State: model.StateRunning, Resources: new(memory("1Gi"))},
	}}, nil
}

func memory(amount string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount)}}
}

// resizeLoop is a loop after a restart, on a node with 4Gi.
func resizeLoop(t *testing.T) (*syncLoop, *countedSteps) {
	t.Helper()
	l, counted := testLoop(t), &countedSteps{}
	l.cache = pleg.NewCache(counted)
	l.workers = podworkers.New(t.Context(), podworkers.Options{PodSyncer: counted, Ended: l.cluster.PodFinished})
	l.admitOn(fourGi{}, func() []*v1.Pod { return l.allocation.AllocatedPods(l.workers.Active()) })
	return l, counted
}

// ran is a pod that an earlier process ran, and that desires amount.
func ran(name string, second int, amount string) *v1.Pod {
	pod := bound(name, second)
	pod.Status.StartTime = new(metav1.Now())
	pod.Spec.Containers[0].Resources = memory(amount)
	return pod
}

func (l *syncLoop) has(pod *v1.Pod) string {
	return l.allocation.Allocated(pod).Spec.Containers[0].Resources.Requests.Memory().String()
}

// TestResizeAfterARestart: a pending resize does not take the room of a running pod that is listed later.
func TestResizeAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := resizeLoop(t)
		first, second := ran("a", 1, "3Gi"), ran("b", 2, "2Gi")
		for _, earlier := range []*v1.Pod{ran("a", 1, "1Gi"), second} {
			testutil.Must(t, l.allocation.Allocate(earlier))
		}
		config := l.config
		l.config = podconfig.New(podconfig.Options{Sources: []string{model.SourceAPI}}) // it has seen no source yet
		l.send(t, podconfig.Add, first)
		l.retryResizes()
		testutil.Equal(t, l.has(first), "1Gi", "the allocation before all pods are known")
		l.send(t, podconfig.Add, second)
		l.config = config
		l.retryResizes()
		if got := l.rejectedNames(); len(got) != 0 || l.has(first) != "1Gi" || l.has(second) != "2Gi" {
			t.Fatalf("rejected %v, allocated %s and %s", got, l.has(first), l.has(second))
		}
		why := l.allocation.Pending("a")
		testutil.Assert(t, why != nil && why.Reason == v1.PodReasonDeferred, "the pending resize is %+v", why)
		l.send(t, podconfig.Remove, second)
		synctest.Wait()
		l.retryResizes()
		testutil.Assert(t, l.has(first) == "3Gi" && l.allocation.Pending("a") == nil,
			"with free room the allocation is %s", l.has(first))
	})
}

// TestResizeBetweenProcesses: a running pod goes on with its resources if its spec changed while no kubelet ran.
func TestResizeBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := resizeLoop(t)
		pod, fresh := ran("a", 1, "8Gi"), bound("b", 2)
		fresh.Spec.Containers[0].Resources = memory("2Gi")
		l.send(t, podconfig.Add, pod, fresh)
		l.retryResizes()
		got := l.rejectedNames()
		testutil.Require(t, len(got) == 0 && l.has(pod) == "1Gi", "rejected %v, allocated %s", got, l.has(pod))
		why := l.allocation.Pending("a")
		testutil.Assert(t, why != nil && why.Reason == v1.PodReasonInfeasible, "the pending resize is %+v", why)
		greedy := fresh.DeepCopy()
		greedy.Spec.Containers[0].Resources = memory("8Gi")
		testutil.Assert(t, l.has(greedy) == "2Gi", "an admitted pod has %s, want its allocation", l.has(greedy))
		l.forgetAllocations(t.Context())
		testutil.Assert(t, l.allocation.Known("a"), "the allocation of a pod that is there was dropped")
		l.workers = podworkers.New(t.Context(), podworkers.Options{PodSyncer: steps{}})
		l.forgetAllocations(t.Context())
		testutil.Assert(t, !l.allocation.Known("a"), "the allocation of a pod that is gone is kept")
	})
}

// TestResizeOrder: pending resizes get free room in the kubelet's order.
func TestResizeOrder(t *testing.T) {
	// Of 4Gi, the blocker has 1536Mi and each other pod 512Mi. All others desire 1536Mi: two resizes fit when the
	// blocker is gone. Pods come in the order of their names.
	for _, c := range []struct {
		name   string
		change func(uid types.UID, pod *v1.Pod)
		stays  bool // the blocker
		want   []types.UID
	}{
		{name: "the longest wait first", want: []types.UID{"a", "b"}},
		{name: "priority before wait", want: []types.UID{"c", "d"}, change: func(uid types.UID, pod *v1.Pod) {
			pod.Spec.Priority = map[types.UID]*int32{"a": new(int32(-1)), "c": new(int32(10)), "d": new(int32(9))}[uid]
		}},
		{name: "class before wait", want: []types.UID{"a", "d"}, change: func(uid types.UID, pod *v1.Pod) {
			if uid == "d" {
				guaranteed := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
					v1.ResourceMemory: resource.MustParse("1536Mi")}
				pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: guaranteed, Limits: guaranteed}
			}
		}},
		{name: "resizes that need no room before all", stays: true, want: []types.UID{"a", "c", "d"},
			change: func(uid types.UID, pod *v1.Pod) {
				if uid == "c" || uid == "d" {
					pod.Spec.Containers[0].Resources = memory("256Mi")
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := resizeLoop(t)
				blocker := ran("blocker", 0, "1536Mi")
				l.send(t, podconfig.Add, blocker)
				var pods []*v1.Pod
				for i, name := range []string{"a", "b", "c", "d"} {
					before := ran(name, i+1, "512Mi")
					testutil.Must(t, l.allocation.Allocate(before))
					after := ran(name, i+1, "1536Mi")
					if c.change != nil {
						c.change(after.UID, after)
					}
					l.send(t, podconfig.Add, after)
					pods = append(pods, after)
					time.Sleep(time.Second)
				}
				if !c.stays {
					l.send(t, podconfig.Remove, blocker)
					synctest.Wait()
				}
				l.retryResizes()
				var done []types.UID
				for _, pod := range pods {
					if l.allocation.Pending(pod.UID) == nil {
						done = append(done, pod.UID)
					}
				}
				rejected := l.rejectedNames()
				testutil.Assert(t, slices.Equal(done, c.want) && len(rejected) == 0,
					"resized %v, want %v; rejected %v", done, c.want, rejected)
			})
		})
	}
}

// TestWaitingResizeIsNoWork: a pending resize causes no syncs while nothing changes.
func TestWaitingResizeIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counted := resizeLoop(t)
		l.send(t, podconfig.Add, ran("a", 1, "8Gi"))
		l.retryResizes()
		synctest.Wait()
		before := counted.synced.Load()
		for range 3 {
			l.retryResizes()
			synctest.Wait()
		}
		got := counted.synced.Load()
		testutil.Assert(t, got == before && before != 0, "the pod was synced %d times, then %d", before, got)
		testutil.Assert(t, slices.Equal(l.allocation.AllPending(), []types.UID{"a"}),
			"pending: %v", l.allocation.AllPending())
	})
}

// TestPodLevelResourcesStay: the pod's own resources are not resized, and the pod's status says so.
func TestPodLevelResourcesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := resizeLoop(t)
		pod := ran("a", 1, "1Gi")
		pod.Spec.Resources = new(memory("2Gi"))
		l.send(t, podconfig.Add, pod)
		grown := pod.DeepCopy()
		grown.Spec.Resources = new(memory("3Gi"))
		testutil.Equal(t, l.resize(grown), true, "a change of the pod's status")
		why := l.allocation.Pending("a")
		testutil.Assert(t, why != nil && why.Reason == v1.PodReasonInfeasible &&
			strings.Contains(why.Message, "spec.resources"), "the pending resize is %+v", why)
		allocated := l.allocation.Allocated(grown).Spec.Resources.Requests.Memory()
		testutil.Equal(t, allocated.String(), "2Gi", "the pod's memory")
		l.resize(pod)
		testutil.Assert(t, l.allocation.Pending("a") == nil, "a pod without a change has a pending resize")
	})
}
