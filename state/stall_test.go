package state

import (
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// An engine that goes away and comes back is not a stall. An event handler or a probe loop that hangs is one.
func TestStalled(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		testutil.Check(n, n.cache.Stalled(), "before Run")
		n.sync()
		for range 3 {
			time.Sleep(time.Hour)
			testutil.Check(n, n.cache.Stalled(), "on a quiet node")
			n.engine.Away()
			time.Sleep(time.Hour)
			testutil.Check(n, n.cache.Stalled(), "without an engine")
			n.engine.Back()
		}
		time.Sleep(time.Minute)
		end := n.cache.progress.beginEvent()
		time.Sleep(20 * time.Second)
		testutil.Check(n, n.cache.Stalled(), "with a slow event")
		time.Sleep(30 * time.Second)
		if err := n.cache.Stalled(); err == nil || !strings.Contains(err.Error(), "engine's events for 50s") {
			n.Errorf("with an event that does not end: %v", err)
		}
		end()
		past := time.Now().Add(-time.Minute)
		n.cache.progress.probeLoop.Store(&past)
		if err := n.cache.Stalled(); err == nil || !strings.Contains(err.Error(), "not been watched for 1m0s") {
			n.Errorf("with a probe loop that hangs: %v", err)
		}
	})
}

func TestSettled(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.engine.Away()
		n.follow()
		n.must(n.cache.WaitSettled(n.Context()))
		if n.cache.Err() == nil || n.cache.Err() == ErrStarting {
			n.Errorf("without an engine Err is %v", n.cache.Err())
		}
	})
}
