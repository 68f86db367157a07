package state

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRelistedIsTheLastFullComparison(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.engine.Away()
		n.follow()
		settle()
		at := n.cache.Relisted()
		testutil.Assert(n, at.IsZero(), "relisted at %s without an engine", at)
		n.engine.Back()
		n.must(n.cache.WaitSynced(n.Context()))
		first := n.cache.Relisted()
		age := time.Since(first)
		testutil.Assert(n, age >= 0 && age <= time.Second, "relisted %s ago, want just now", age)
		time.Sleep(6 * time.Minute) // more than the period
		settle()
		again := n.cache.Relisted()
		testutil.Assert(n, again.Sub(first) >= 5*time.Minute, "relisted at %s and again at %s", first, again)
	})
}

func TestLagOfEventsIsObserved(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var lags []time.Duration
		n.cache = New(
			Options{Engine: n.engine, Records: n.records, ObserveEvent: func(lag time.Duration) {
				lags = append(lags, lag)
			}})
		n.sync()
		n.startContainer("app")
		settle()
		n.stopCache()      // before lags is read
		if len(lags) < 4 { // the sandbox and the container, each created and started
			n.Errorf("%d events were observed", len(lags))
		}
		for _, lag := range lags {
			testutil.Assert(n, lag >= 0 && lag <= time.Minute, "an event was %s late", lag)
		}
	})
}
