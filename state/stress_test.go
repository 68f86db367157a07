package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Writers, readers and events run at once while the engine goes away and comes back. At the end the cache agrees with
// the engine. No reader sees an impossible state on the way.
func TestManyWritersAndReaders(t *testing.T) {
	for _, flavor := range []dockertest.Flavor{dockertest.Docker20, dockertest.Docker29} {
		t.Run(dockertest.DefaultFeatures(flavor).ServerVersion, func(t *testing.T) {
			n := newNode(t, dockertest.Options{Flavor: flavor, EventLag: time.Millisecond})
			defer n.engine.Close()
			n.cache.OnExit(func(ctx context.Context, _ *Container) { _ = pace.Sleep(ctx, 100*time.Microsecond) })
			n.follow()
			defer n.stopCache()
			n.must(n.cache.WaitSynced(t.Context()))

			ctx, cancel := context.WithCancel(t.Context())
			var readers, writers sync.WaitGroup
			for range 4 {
				readers.Go(func() { watch(ctx, t, n.cache) })
			}
			readers.Go(func() { flap(ctx, n.engine) })
			for worker := range 8 {
				writers.Go(func() { live(n, worker) })
			}
			writers.Wait()
			cancel()
			readers.Wait()
			n.engine.Back()
			n.wantTruth()
		})
	}
}

// live creates pods and containers, then starts, ends, updates and removes them at random.
func live(n *node, worker int) {
	random := rand.New(rand.NewPCG(1, uint64(worker)))
	ctx := context.Background()
	for round := range 30 {
		name := fmt.Sprintf("pod-%d-%d", worker, round)
		release, err := n.cache.Reserve(translate.SandboxName(podConfig(name).Metadata))
		if err != nil {
			n.Error(err)
			return
		}
		podID := retry(n, func() (string, error) { return n.engine.CreateContainer(ctx, n.sandboxSpec(name)) })
		retry(n, func() (string, error) { return "", n.engine.StartContainer(ctx, podID) })
		n.records.save(readyRecord(podID, name))
		inspect := retry(n, func() (*container.InspectResponse, error) { return n.engine.InspectContainer(ctx, podID) })
		n.cache.PutPod(NewPod(n.Context(), inspect, readyRecord(podID, name)))
		release()
		pod, err := n.cache.Snapshot().Pod(podID)
		testutil.Assert(n, err == nil && pod.ID == podID, "the snapshot lacks the pod that was just published: %v", err)
		id := retry(n, func() (string, error) {
			return n.engine.CreateContainer(ctx, n.containerSpec(podID, name, "app"))
		})
		for range random.IntN(6) {
			switch random.IntN(5) {
			case 0:
				retry(n, func() (string, error) { return "", n.engine.StartContainer(ctx, id) })
			case 1:
				_ = n.engine.Exit(id, random.IntN(256))
			case 2:
				_, _ = n.cache.RefreshContainer(ctx, id)
			case 3:
				n.cache.UpdateContainer(id, func(s *ContainerStatus) { s.Resources = nil })
			case 4:
				n.cache.UpdatePod(podID, func(s *PodStatus) { s.Stopping = true })
			}
		}
		if random.IntN(2) == 0 {
			retry(n, func() (string, error) { return "", docker.IgnoreNotFound(n.engine.RemoveContainer(ctx, id)) })
			n.cache.RemoveContainer(id)
		}
		if random.IntN(2) == 0 {
			retry(n, func() (string, error) { return "", docker.IgnoreNotFound(n.engine.RemoveContainer(ctx, podID)) })
			n.records.remove(podID)
			n.cache.RemovePod(podID)
		}
	}
}

// retry repeats a call until it succeeds, for at most 20 s.
func retry[T any](n *node, call func() (T, error)) T {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		result, err := call()
		if err == nil {
			return result
		}
		if time.Now().After(deadline) {
			n.Errorf("the engine does not come back: %v", err)
			return result
		}
	}
}

// flap takes the engine away and back until ctx ends.
func flap(ctx context.Context, e *engine) {
	for pace.Sleep(ctx, 20*time.Millisecond) == nil {
		e.Away()
		_ = pace.Sleep(ctx, 2*time.Millisecond)
		e.Back()
	}
}

// watch reads snapshots until ctx ends. It fails if an exited container runs again under the same start, or if a
// removed id comes back.
func watch(ctx context.Context, t *testing.T, m *Cache) {
	type run struct {
		id      string
		started time.Time
	}
	ended := map[run]bool{}
	gone := map[string]bool{}
	known := map[string]bool{}
	for pace.Sleep(ctx, 100*time.Microsecond) == nil {
		snapshot := m.Snapshot()
		for _, c := range snapshot.Containers() {
			this := run{c.ID, c.Status.StartedAt}
			if c.Status.Running && ended[this] {
				t.Errorf("container %s runs again", c.ID)
				return
			}
			ended[this] = c.Status.State() == exited
			known[c.ID] = true
			if gone[c.ID] {
				t.Errorf("container %s is back", c.ID)
				return
			}
		}
		for id := range known {
			if _, err := snapshot.Container(id); err != nil {
				gone[id] = true
			}
		}
	}
}

// wantTruth waits until the cache holds exactly what the engine has.
func (n *node) wantTruth() {
	n.Helper()
	var difference string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if difference = n.difference(); difference == "" {
			return
		}
	}
	n.Errorf("the cache still differs from the engine: %s", difference)
}

func (n *node) difference() string {
	list, err := n.engine.ListContainers(n.Context(), map[string]string{translate.LabelKind: ""})
	n.must(err)
	snapshot := n.cache.Snapshot()
	entries := len(snapshot.Containers())
	for _, pod := range snapshot.Pods() {
		// A pod stays in the cache if its container was removed but its checkpoint was not.
		if _, err := n.records.Load(context.Background(), pod.ID); err != nil || pod.Status.Running {
			entries++
		}
	}
	found := 0
	for _, summary := range list {
		inspect, err := n.engine.Engine.InspectContainer(n.Context(), summary.ID)
		n.must(err)
		if pod, err := snapshot.Pod(summary.ID); err == nil {
			if pod.Status.Running != inspect.State.Running || pod.Status.PID != inspect.State.Pid {
				return fmt.Sprintf("pod %s is %+v", pod.ID, pod.Status)
			}
			if pod.Status.Running {
				found++
			}
			continue
		}
		c, err := snapshot.Container(summary.ID)
		if err != nil {
			return err.Error()
		}
		want := containerStatus(inspect)
		if c.Status.Running != want.Running || c.Status.ExitCode != want.ExitCode ||
			!c.Status.FinishedAt.Equal(want.FinishedAt) {
			return fmt.Sprintf("container %s is %+v, want %+v", c.ID, c.Status, want)
		}
		found++
	}
	if found != entries {
		return fmt.Sprintf("%d entries, the engine has %d", entries, found)
	}
	return ""
}
