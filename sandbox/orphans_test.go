package sandbox

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// collecting runs CollectOrphans as the program does.
func (n *node) collecting() (stop func()) {
	stop = testutil.Background(n, func(ctx context.Context) error {
		n.CollectOrphans(ctx)
		return nil
	})
	synctest.Wait()
	return stop
}

func (n *node) isJoined(id string) bool {
	n.network.mu.Lock()
	defer n.network.mu.Unlock()
	_, joined := n.network.joined[id]
	return joined
}

// No client will ever ask for a pod whose checkpoint and container are lost.
func TestOrphansGiveTheirAddressesBack(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.opts.NetworkGC = true
		orphan, living, stopped, unrecorded := n.run("orphan"), n.run("living"), n.run("stopped"), n.run("unrecorded")
		n.must(n.engine.Exit(stopped, 137))
		// Another runtime and another criadapter use the same directory of the CNI cache.
		n.network.join(cni.Pod{ID: "theirs", NetnsPath: "/run/netns/cni-1234"})
		features, err := n.engine.Features(n.Context())
		n.must(err)
		foreign, err := n.engine.CreateContainer(n.Context(), foreignSandbox(n, features))
		n.must(err)
		n.network.join(cni.Pod{ID: foreign, NetnsPath: n.netnsPath(foreign)})

		n.end()
		n.loseRecord(orphan)
		n.loseRecord(unrecorded)
		n.must(n.engine.RemoveContainer(n.Context(), orphan))
		n.start(n.mode)
		n.opts.NetworkGC = true
		n.must(n.Recover(n.Context()))
		stop := n.collecting()
		testutil.Assert(n, !n.isJoined(orphan), "the orphan still has its address")
		for name, id := range map[string]string{
			"living": living, "stopped": stopped, "unrecorded": unrecorded, "another runtime's": "theirs",
			"another criadapter's": foreign,
		} {
			testutil.Assert(n, n.isJoined(id), "the %s pod has lost its address", name)
		}
		want := []string{living, stopped, unrecorded}
		slices.Sort(want)
		if len(n.network.collected) != 1 || !slices.Equal(slices.Sorted(slices.Values(n.network.collected[0])), want) {
			n.Errorf("GC got %v, want %v once", n.network.collected, want)
		}

		// A pod that is lost while the program runs is found after orphanPeriod.
		n.must(n.store.Delete(n.Context(), living))
		n.must(n.engine.RemoveContainer(n.Context(), living))
		time.Sleep(time.Minute)
		testutil.Assert(n, n.isJoined(living), "the pod was collected before its time")
		time.Sleep(orphanPeriod)
		testutil.Assert(n, !n.isJoined(living), "the pod was not collected")
		stop()
	})
}

// foreignSandbox is a sandbox of a criadapter with another root directory.
func foreignSandbox(n *node, features docker.Features) docker.ContainerSpec {
	n.Helper()
	spec, err := translate.Sandbox(translate.SandboxInput{
		Config: podConfig("foreign"), Image: pauseImage, Features: features, RootDirectory: "/another",
	})
	n.must(err)
	return spec
}

func TestPodThatIsBeingSetUpIsNoOrphan(t *testing.T) {
	onEachKind(t, func(n *node) {
		n.network.setAdd(func(_ context.Context, pod cni.Pod) error {
			n.network.join(pod)
			return n.collectOrphans(n.Context())
		})
		id := n.run("web")
		testutil.Assert(n, n.network.dels == 0 && n.isJoined(id), "CNI DEL was run %d times", n.network.dels)
	})
}

func TestOrphansStayWhileTheEngineIsAway(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		n.must(n.store.Delete(n.Context(), id))
		n.engine.Away()
		settle()
		n.must(n.collectOrphans(n.Context()))
		testutil.Assert(n, n.isJoined(id), "the pod has lost its address")
		n.engine.Back()
		settle()
	})
}

func TestHangingDelOfOneOrphan(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		var ids []string
		for _, name := range []string{"a", "b", "c", "d"} {
			ids = append(ids, n.run(name))
		}
		for _, id := range ids {
			n.must(n.store.Delete(n.Context(), id))
			n.must(n.engine.RemoveContainer(n.Context(), id))
		}
		settle()
		n.network.setDel(func(ctx context.Context, pod cni.Pod) error {
			if pod.ID == ids[0] {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		begun := time.Now()
		if err := n.collectOrphans(n.Context()); err == nil || time.Since(begun) > time.Minute {
			n.Errorf("returned %v after %v", err, time.Since(begun))
		}
		for i, id := range ids {
			if n.isJoined(id) != (i == 0) {
				n.Errorf("pod %d: joined is %v", i, n.isJoined(id))
			}
		}
	})
}
