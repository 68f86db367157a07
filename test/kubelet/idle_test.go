package kubelet

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/footprint"
)

// TestIdlePodCostsListsAlone counts the CRI calls of a node whose only pod does nothing, with the runtime's events and
// without them. Only calls about the whole node are allowed.
func TestIdlePodCostsListsAlone(t *testing.T) {
	criadapterOnly(t)
	for name, flags := range map[string][]string{"events": nil, "lists": {"--no-runtime-events"}} {
		t.Run(name, func(t *testing.T) {
			n := prepareNode(t, append(flags, "--sync-frequency", "2s")...)
			server := n.server.(criadapter)
			metrics := footprint.NewMetrics(filepath.Join(server.Dir, "m.sock"))
			server.AddFlags(metrics.Flag())
			testutil.Must(t, server.Stop(t.Context()))
			testutil.Must(t, server.Start(t.Context()))
			n.start()
			pod := n.run("pod", "sleep 1000")
			if name == "events" {
				n.evented(1)
			}
			testutil.Until(t, "the first look at images", func() bool { return calls(t, metrics)["StreamImages"] > 0 })
			settle(t, metrics)
			before := calls(t, metrics)
			time.Sleep(15 * time.Second) // the kubelet core looks at logs every ten seconds
			after := calls(t, metrics)
			allowed := []string{"Status", "StreamPodSandboxStats", "StreamPodSandboxes", "StreamContainers"}
			for _, method := range slices.Sorted(maps.Keys(after)) {
				if more := after[method] - before[method]; more > 0 && !slices.Contains(allowed, method) {
					t.Errorf("%s was called %d times", method, more)
				}
			}
			testutil.Assert(t, after["StreamPodSandboxes"] != before["StreamPodSandboxes"],
				"the garbage collection, which runs every two seconds, lists nothing: %v", after)
			n.killContainers(id(pod, "main"))
			n.restarted("pod", "main", 1)
		})
	}
}

// settle waits until two seconds pass without a request for a status.
func settle(t *testing.T, metrics *footprint.Metrics) {
	t.Helper()
	for last, deadline := -1, time.Now().Add(patience); ; time.Sleep(2 * time.Second) {
		counts := calls(t, metrics)
		now := counts["PodSandboxStatus"] + counts["ContainerStatus"]
		if now == last {
			return
		}
		last = now
		testutil.Require(t, time.Now().Before(deadline), "statuses are requested repeatedly: %d times", now)
	}
}

// calls are how often each CRI method was called since the server's start.
func calls(t *testing.T, metrics *footprint.Metrics) map[string]int {
	t.Helper()
	var counts map[string]int
	eventually(t, "the server's metrics", func() (err error) {
		if counts, err = metrics.Calls(t.Context()); err == nil && len(counts) == 0 {
			err = errors.New("no calls are counted")
		}
		return err
	})
	return counts
}
