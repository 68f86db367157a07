package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// filled is a cache with that many containers, two in each pod.
func filled(containers int) (m *Cache, podID, id string) {
	m = New(Options{})
	all := &Snapshot{}
	var pods []*Pod
	var made []*Container
	for i := range containers / 2 {
		podID = fmt.Sprintf("%064x", 1<<32+i)
		pod := &Pod{ID: podID, Meta: PodMeta{Name: podID, Config: podConfig("web"), CreatedAt: time.Unix(int64(i), 0)}}
		pod.Status = PodStatus{Running: true, NetworkReady: true, IPs: []string{"10.0.0.1"}}
		pods = append(pods, pod)
		for j := range 2 {
			id = fmt.Sprintf("%064x", 2*i+j)
			c := &Container{ID: id, SandboxID: podID, Meta: ContainerMeta{CreatedAt: time.Unix(int64(2*i+j), 0)}}
			made = append(made, c)
		}
	}
	all.pods.byID, all.containers.byID = orderedOf(pods), orderedOf(made)
	for v, order := range podKind.views {
		all.pods.views[v] = orderedOf(slices.SortedFunc(slices.Values(pods), order))
	}
	for v, order := range containerKind.views {
		all.containers.views[v] = orderedOf(slices.SortedFunc(slices.Values(made), order))
	}
	m.snapshot.Store(all)
	return m, podID, id
}

func benchmarkSizes(b *testing.B, run func(b *testing.B, m *Cache, podID, id string)) {
	for _, size := range []int{100, 1000, 10000} {
		m, podID, id := filled(size)
		b.Run(fmt.Sprintf("containers=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			run(b, m, podID, id)
		})
	}
}

// BenchmarkSnapshot measures the look-up of a container in the current snapshot, by concurrent readers.
func BenchmarkSnapshot(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, m *Cache, podID, id string) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, err := m.Snapshot().Container(id)
				testutil.Check(b, err)
			}
		})
	})
}

// BenchmarkList is a list of a node on which nothing has changed since the last list.
func BenchmarkList(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, m *Cache, podID, id string) {
		for b.Loop() {
			snapshot := m.Snapshot()
			testutil.Require(b, len(snapshot.Pods()) != 0 && len(snapshot.Containers()) != 0, "empty")
		}
	})
}

// BenchmarkWrite is one change, as an event makes it.
func BenchmarkWrite(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, m *Cache, podID, id string) {
		for b.Loop() {
			m.UpdateContainer(id, func(s *ContainerStatus) { s.ExitCode++ })
		}
	})
}

// BenchmarkWriteThenList is a change and the first list after it.
func BenchmarkWriteThenList(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, m *Cache, podID, id string) {
		for b.Loop() {
			m.UpdateContainer(id, func(s *ContainerStatus) { s.ExitCode++ })
			m.Snapshot().Containers()
		}
	})
}

// BenchmarkFindByPrefix measures the look-up by a shortened id.
func BenchmarkFindByPrefix(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, m *Cache, podID, id string) {
		for b.Loop() {
			if _, err := m.Snapshot().Container(id[:63]); err == nil {
				continue
			}
			m.Snapshot().Pod(podID[:63])
		}
	})
}

// BenchmarkStart is the first relist of a node whose containers have ended, with their ends in the records.
func BenchmarkStart(b *testing.B) {
	for _, size := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("ended=%d", size), func(b *testing.B) {
			n := newNode(b, dockertest.Options{})
			defer n.engine.Close()
			podID := n.startPod("web")
			ids := make([]string, size)
			for i := range ids {
				ids[i] = n.createContainer(podID, "web", fmt.Sprintf("app-%d", i))
				n.start(ids[i])
				n.must(n.engine.Exit(ids[i], 7))
			}
			time.Sleep(time.Second) // lists of the engine may lag behind
			synced := func() {
				n.follow()
				n.must(n.cache.WaitSynced(b.Context()))
			}
			synced()
			ends := map[string]*checkpoint.End{}
			for _, id := range ids {
				ends[id] = EndOf(n.container(id))
			}
			n.keepEnds(podID, ends)
			n.stopCache()
			before := n.engine.Calls("InspectContainer")
			for b.Loop() {
				n.newCache()
				synced()
				n.stopCache()
			}
			b.ReportMetric(float64(n.engine.Calls("InspectContainer")-before)/float64(b.N), "inspects/op")
		})
	}
}
