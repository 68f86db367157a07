package state

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/docker/dockertest"
)

// Each new stream of events is reported once, and each event about an image with its id.
func TestImageEventsArePassedOn(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		connections, changed := 0, []string(nil)
		n.cache.opts.Connected = func() { connections++ }
		n.cache.opts.ImageChanged = func(ref string) { changed = append(changed, ref) }
		n.sync()
		img, err := n.engine.InspectImage(n.Context(), testImage)
		n.must(err)
		n.must(n.engine.TagImage(n.Context(), testImage, "other:1"))
		synctest.Wait()
		if connections != 1 || !slices.Equal(changed, []string{img.ID}) {
			n.Errorf("%d connections, events about %q", connections, changed)
		}
		n.engine.Away()
		time.Sleep(time.Minute)
		n.engine.Back()
		time.Sleep(time.Minute)
		if connections != 2 {
			n.Errorf("%d connections after the engine came back", connections)
		}
	})
}
