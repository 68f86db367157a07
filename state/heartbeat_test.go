package state

import (
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHangingEngineIsSeen(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		answer := n.engine.Inject("Ping", dockertest.Fault{Block: true})
		time.Sleep(11 * time.Second)
		n.must(n.cache.Err()) // it may only be busy
		time.Sleep(4 * time.Second)
		testutil.Fails(n, n.cache.Err(), errdefs.IsUnavailable, "after 15 seconds Err")
		n.wantContainer(id, running)
		answer()
		time.Sleep(10 * time.Second) // unlike with a real engine, the probe under way still hangs
		n.must(n.cache.Err())
		time.Sleep(time.Hour)
		n.must(n.cache.Err())
	})
}

// Answers to other requests replace the probes.
func TestEngineIsProbedOnlyWhileQuiet(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		before := n.engine.Calls("Ping")
		for range 60 {
			time.Sleep(time.Second)
			_, err := n.engine.ListImages(n.Context())
			testutil.Must(n, err)
		}
		testutil.Equal(n, n.engine.Calls("Ping")-before, 0, "pings in a minute with an answer each second")
		before = n.engine.Calls("Ping")
		time.Sleep(time.Minute)
		pings := n.engine.Calls("Ping") - before
		testutil.Assert(n, pings >= 10 && pings <= 15, "%d pings in a quiet minute", pings)
	})
}

// A locked-up engine answers pings only. After a request timed out, the probe is a list.
func TestLockedUpEngineIsSeen(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		n.sync()
		time.Sleep(time.Second)
		answer := n.engine.Inject("ListContainers", dockertest.Fault{Block: true})
		n.engine.NoteTimeout()
		time.Sleep(15 * time.Second)
		testutil.Fails(n, n.cache.Err(), errdefs.IsUnavailable, "Err")
		answer()
		time.Sleep(10 * time.Second)
		n.must(n.cache.Err())
		lists := n.engine.Calls("ListContainers")
		time.Sleep(time.Minute)
		testutil.Equal(n, n.engine.Calls("ListContainers")-lists, 0,
			"more lists in a minute after the engine answered")
	})
}
