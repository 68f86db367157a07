package state

import (
	"context"
	"errors"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker/dockertest"
)

func TestPodsAreShownOnceTheyAreAdopted(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		id, err := n.engine.CreateContainer(n.Context(), n.sandboxSpec("a"))
		n.must(err)
		calls := 0
		n.cache = New(Options{Engine: n.engine, Records: n.records, Adopt: func(_ context.Context, list []container.Summary) error {
			calls++
			if len(list) != 1 || list[0].ID != id || len(n.cache.Snapshot().Pods()) != 0 || n.cache.Err() == nil {
				t.Errorf("call %d: %v are listed, %v shown, %v", calls, list, n.cache.Snapshot().Pods(), n.cache.Err())
			}
			if calls == 1 {
				return errors.New("the disk is full")
			}
			return nil
		}})
		n.sync()
		if len(n.cache.Snapshot().Pods()) != 1 || n.cache.Err() != nil {
			t.Errorf("%v are shown, %v", n.cache.Snapshot().Pods(), n.cache.Err())
		}
		n.must(n.cache.relist(n.Context(), n.cache.agrees))
		if calls != 2 {
			t.Errorf("it was called %d times, want a failure and a success", calls)
		}
	})
}
