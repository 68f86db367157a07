package report

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/test/apitest"
)

func deleteNow() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// statusBench has a store whose statuses a StatusSyncer sends to a server, all in fake time.
type statusBench struct {
	*testing.T
	server   *apitest.Server
	store    *status.Manager
	statuses *StatusSyncer

	mu       sync.Mutex
	finished map[types.UID]bool
}

func inStatusBubble(t *testing.T, test func(b *statusBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &statusBench{T: t, server: apitest.New(), store: status.NewManager(), finished: map[types.UID]bool{}}
		b.statuses = NewStatusSyncer(StatusOptions{Pods: b.server.Core(), Store: b.store})
		finished := func(uid types.UID) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.finished[uid]
		}
		testutil.Background(t, func(ctx context.Context) error { return b.statuses.Run(ctx, finished) })
		synctest.Wait()
		test(b)
	})
}

// withPod is inStatusBubble with a pod of this node on the server.
func withPod(t *testing.T, test func(b *statusBench, a *v1.Pod)) {
	t.Helper()
	inStatusBubble(t, func(b *statusBench) { test(b, b.pod("a")) })
}

// pod creates a pod of this node on the server.
func (b *statusBench) pod(name string) *v1.Pod {
	return b.server.Put(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: "i"}}},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, Reason: "scheduler",
				LastTransitionTime: metav1.Unix(1000, 0)},
		}},
	})
}

// static returns a static pod, and mirror creates its mirror pod on the server.
func static(name, hash string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(hash), Annotations: map[string]string{
			model.AnnotationConfigSource: model.SourceFile, model.AnnotationConfigHash: hash,
		}},
		Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

func (b *statusBench) mirror(static *v1.Pod) *v1.Pod {
	mirror := static.DeepCopy()
	mirror.UID = ""
	mirror.Annotations[model.AnnotationConfigMirror] = static.Annotations[model.AnnotationConfigHash]
	mirror.Generation = 4
	return b.server.Put(mirror)
}

// saw shows the syncer the server's pod.
func (b *statusBench) saw(name string) { b.statuses.ObservePod(b.server.Pod("ns", name)) }

// sawMirrors shows the syncer the server's mirror pods with these names.
func (b *statusBench) sawMirrors(names ...string) {
	var mirrors []*v1.Pod
	for _, name := range names {
		mirrors = append(mirrors, b.server.Pod("ns", name))
	}
	b.statuses.ObserveMirrorPods(mirrors)
}

// set stores a status with that phase, and waits until the syncer has nothing more to do.
func (b *statusBench) set(pod *v1.Pod, phase v1.PodPhase, change ...func(*v1.PodStatus)) {
	s := v1.PodStatus{
		Phase: phase, ObservedGeneration: pod.Generation, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())},
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())},
		},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "c",
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now())}}}},
	}
	for _, change := range change {
		change(&s)
	}
	b.store.Set(pod, s)
	synctest.Wait()
}

func (b *statusBench) finish(uid types.UID) {
	b.mu.Lock()
	b.finished[uid] = true
	b.mu.Unlock()
	b.statuses.Wake(uid)
	synctest.Wait()
}

func (b *statusBench) wantCalls(want ...string) {
	b.Helper()
	got := b.server.Calls()
	testutil.Assert(b, slices.Equal(got, want), "calls %q, want %q", got, want)
}

func (b *statusBench) wantPhase(name string, want v1.PodPhase) {
	b.Helper()
	pod := b.server.Pod("ns", name)
	testutil.Assert(b, pod != nil && pod.Status.Phase == want, "pod %s is %+v, want phase %s", name, pod, want)
}
