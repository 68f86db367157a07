package sandbox

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A hanging CNI plugin delays only its own pods. Recover gives up each of them before the kubelet's next StopPodSandbox
// times out.
func TestRecoveryWithAHangingPlugin(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		const hung, healthy = 20, 5
		var stuck, running []string
		for i := range hung {
			stuck = append(stuck, n.run(fmt.Sprint("stuck-", i)))
		}
		for i := range healthy {
			running = append(running, n.run(fmt.Sprint("running-", i)))
		}
		n.end()
		for _, id := range stuck {
			n.must(n.store.Update(n.Context(), id, toIntent))
		}
		for _, id := range running {
			n.must(netns.Open(n.netnsPath(id)).Unpin())
		}
		n.must(os.RemoveAll(n.files.dir))
		n.network.setDel(waitForEnd)
		n.start(n.mode)

		begun, recovered := time.Now(), make(chan error, 1)
		go func() { recovered <- n.Recover(n.Context()) }()
		time.Sleep(time.Second)
		for _, id := range running {
			testutil.Assert(n, netns.Open(n.netnsPath(id)).Alive() && n.files.complete(id),
				"pod %s has no pin or files after a second", id[:8])
		}
		// The kubelet calls StopPodSandbox for each pod, with a timeout of two minutes.
		time.Sleep(30 * time.Second)
		n.network.failDel(nil) // the plugin works again
		for _, id := range stuck {
			ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
			n.must(n.Stop(ctx, id))
			cancel()
		}
		testutil.FailsWith(n, <-recovered, context.DeadlineExceeded, "Recover")
		took := time.Since(begun)
		testutil.Assert(n, took <= 3*time.Minute, "recovery took %v", took)
		n.wantUnjoinedOf(stuck)
	})
}

// All plugins hang for ever: the recovery ends all the same.
func TestRecoveryEndsThoughAllPluginsHang(t *testing.T) {
	onEachKind(t, func(n *node) {
		var ids []string
		for i := range 16 {
			ids = append(ids, n.run(fmt.Sprint("stuck-", i)))
		}
		n.end()
		for _, id := range ids {
			n.must(n.store.Update(n.Context(), id, toIntent))
		}
		n.network.setDel(waitForEnd)
		n.start(n.mode)
		ctx, cancel := context.WithTimeout(n.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		testutil.FailsWith(n, n.Recover(ctx), context.DeadlineExceeded, "Recover")
		took := time.Since(begun)
		testutil.Assert(n, took <= 2*time.Minute, "recovery took %v for %d pods", took, len(ids))
		n.network.failDel(nil)
	})
}

func toIntent(r *checkpoint.Record) error {
	r.Phase = checkpoint.PhaseIntent
	return nil
}

func (n *node) wantUnjoinedOf(ids []string) {
	n.Helper()
	n.network.mu.Lock()
	defer n.network.mu.Unlock()
	for _, id := range ids {
		pod, joined := n.network.joined[id]
		testutil.Assert(n, !joined, "pod %s still has an address", pod.Name)
	}
}
