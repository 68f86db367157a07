package state

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Each new stream of events is reported once, and each event about an image with its id.
func TestImageEventsArePassedOn(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var connections atomic.Int64
		changed := make(chan string, 2)
		n.cache.opts.Connected = func() { connections.Add(1) }
		n.cache.opts.ImageChanged = func(ref string) { changed <- ref }
		n.sync()
		img, err := n.engine.InspectImage(n.Context(), testImage)
		n.must(err)
		n.must(n.engine.TagImage(n.Context(), testImage, "other:1"))
		synctest.Wait()
		testutil.Equal(n, connections.Load(), 1, "connections")
		testutil.Equal(n, len(changed), 1, "events about images")
		testutil.Equal(n, <-changed, img.ID, "the event's image")
		n.engine.Away()
		time.Sleep(time.Minute)
		n.engine.Back()
		time.Sleep(time.Minute)
		testutil.Equal(n, connections.Load(), 2, "connections after the engine came back")
	})
}

// The creation and the removal of a container of `docker run` are reported. Changes of a pod's containers are not.
// Events before a connection were missed.
func TestChangesOfForeignContainersArePassedOn(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var changes atomic.Int64
		n.cache.opts.ForeignChanged = func() { changes.Add(1) }
		n.sync()
		synctest.Wait()
		testutil.Equal(n, changes.Swap(0), 1, "changes at the connection")
		_, id := n.startContainer("a")
		n.must(n.engine.RemoveContainer(n.Context(), id))
		synctest.Wait()
		testutil.Equal(n, changes.Load(), 0, "changes of a pod")
		spec := docker.ContainerSpec{Name: "mine", Config: &container.Config{Image: testImage},
			Host: &container.HostConfig{}}
		id, err := n.engine.CreateContainer(n.Context(), spec)
		n.must(err)
		n.start(id)
		synctest.Wait()
		testutil.Equal(n, changes.Load(), 1, "changes after docker run")
		n.must(n.engine.RemoveContainer(n.Context(), id))
		synctest.Wait()
		testutil.Equal(n, changes.Load(), 2, "changes after docker rm")
	})
}
