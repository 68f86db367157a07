package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// only returns the entries that pass, from a scan of all.
func only[T any](all []*T, pass func(*T) bool) []*T {
	var some []*T
	for _, entry := range all {
		if pass(entry) {
			some = append(some, entry)
		}
	}
	return some
}

// TestIndexes writes at random and compares each index with a scan.
func TestIndexes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	labels := func(uid int) map[string]string {
		if uid == 0 {
			return nil // made without a kubelet
		}
		return map[string]string{LabelPodUID: fmt.Sprint(uid)}
	}
	m := New(Options{})
	for range 500 {
		id, created := fmt.Sprint(random.IntN(30)), time.Unix(random.Int64N(5), 0)
		config := &runtimeapi.PodSandboxConfig{Labels: labels(random.IntN(4))}
		m.PutPod(Pod{ID: "p" + id, Meta: PodMeta{CreatedAt: created, Config: config}, Status: PodStatus{
			Running: random.IntN(2) == 0, NetworkReady: true,
		}})
		container := Container{ID: "c" + id, SandboxID: "p" + fmt.Sprint(random.IntN(30)), Meta: ContainerMeta{
			CreatedAt: created, Config: &runtimeapi.ContainerConfig{Labels: labels(random.IntN(4))},
		}}
		if random.IntN(2) == 0 {
			container.Status = ContainerStatus{Running: true}
		}
		m.PutContainer(container)
		if gone := fmt.Sprint(random.IntN(30)); random.IntN(3) == 0 {
			m.RemovePod("p" + gone)
			m.RemoveContainer("c" + gone)
		}
		compareIndexes(t, m.Snapshot())
		if t.Failed() {
			return
		}
	}
}

func compareIndexes(t *testing.T, s *Snapshot) {
	t.Helper()
	for _, uid := range []string{"", "1", "2", "3", "4"} {
		if want := only(s.Pods(), func(p *Pod) bool {
			return podUID(p) == uid
		}); !slices.Equal(s.PodsLabelled(uid), want) {
			t.Errorf("pods labelled %q: %v, want %v", uid, s.PodsLabelled(uid), want)
		}
		want := only(s.Containers(), func(c *Container) bool { return containerUID(c) == uid })
		got := s.ContainersLabelled(uid)
		testutil.Assert(t, slices.Equal(got, want), "containers labelled %q: %v, want %v", uid, got, want)
	}
	for state := range runtimeapi.PodSandboxState_name {
		state := runtimeapi.PodSandboxState(state)
		if want := only(s.Pods(), func(p *Pod) bool {
			return p.Status.State() == state
		}); !slices.Equal(s.PodsIn(state), want) {
			t.Errorf("pods in %v: %v, want %v", state, s.PodsIn(state), want)
		}
	}
	for state := range runtimeapi.ContainerState_name {
		state := runtimeapi.ContainerState(state)
		want := only(s.Containers(), func(c *Container) bool { return c.Status.State() == state })
		got := s.ContainersIn(state)
		testutil.Assert(t, slices.Equal(got, want), "containers in %v: %v, want %v", state, got, want)
	}
}
