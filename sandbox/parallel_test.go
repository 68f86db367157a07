package sandbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A pod with many containers takes no longer to stop than one with few. CNI DEL and the end of the sandbox run side by
// side.
func TestStopDoesAtOnceWhatItCan(t *testing.T) {
	const stop, del = 3 * time.Second, 4 * time.Second
	onEachKind(t, func(n *node) {
		id := n.run("web")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			n.addContainer(id, "web", name)
		}
		n.engine.Inject("StopContainer", dockertest.Fault{Delay: stop})
		n.network.setDel(func(context.Context, cni.Pod) error {
			for _, c := range n.cache.Snapshot().ContainersOf(id) {
				n.wantRunning(c.ID, false) // no running container loses its network
			}
			time.Sleep(del)
			return nil
		})
		began := time.Now()
		n.must(n.Stop(n.Context(), id))
		if took, most := time.Since(began), stop+del+time.Second/2; took > most {
			n.Errorf("the stop took %s, want at most %s", took, most)
		}
		testutil.Assert(n, n.network.deadDels == 0, "CNI DEL found no namespace")
	})
}

// A call that hangs for one pod delays no call for another pod.
func TestPodsDoNotWaitForEachOther(t *testing.T) {
	hangs := func(n *node) { n.network.setDel(waitForEnd) }
	for name, call := range map[string]func(*node, context.Context, string) error{
		"Run": func(n *node, ctx context.Context, _ string) error {
			n.network.setAdd(waitForEnd)
			_, err := n.Run(ctx, podConfig("hangs"), "")
			return err
		},
		"Stop":   func(n *node, ctx context.Context, id string) error { hangs(n); return n.Stop(ctx, id) },
		"Remove": func(n *node, ctx context.Context, id string) error { hangs(n); return n.Remove(ctx, id) },
	} {
		t.Run(name, func(t *testing.T) {
			onEachKind(t, func(n *node) {
				id := n.run("first")
				ctx, cancel := context.WithCancel(n.Context())
				hung := testutil.Go(func() error { return call(n, ctx, id) })
				synctest.Wait()
				n.network.failAdd(nil)
				n.network.failDel(nil)
				began := time.Now()
				var group sync.WaitGroup
				for _, name := range []string{"a", "b", "c"} {
					group.Go(func() {
						other := n.run(name)
						n.must(n.Stop(n.Context(), other))
						n.must(n.Remove(n.Context(), other))
					})
				}
				group.Wait()
				took := time.Since(began)
				testutil.Assert(n, took <= time.Second, "the others took %s", took)
				select {
				case err := <-hung:
					n.Errorf("the call for the hanging pod returned %v", err)
				default:
				}
				cancel()
				testutil.Assert(n, <-hung != nil, "the call that hung succeeded")
			})
		})
	}
}

func waitForEnd(ctx context.Context, _ cni.Pod) error {
	<-ctx.Done()
	return ctx.Err()
}
