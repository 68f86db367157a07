package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPodsAreShownOnceTheyAreAdopted(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		id, err := n.engine.CreateContainer(n.Context(), n.sandboxSpec("a"))
		n.must(err)
		calls := 0
		n.cache = New(
			Options{Engine: n.engine, Records: n.records,
				Adopt: func(_ context.Context, list []container.Summary) error {
					calls++
					if len(list) != 1 || list[0].ID != id || len(n.cache.Snapshot().Pods()) != 0 ||
						n.cache.Err() == nil {
						t.Errorf("call %d: %v are listed, %v shown, %v", calls, list, n.cache.Snapshot().Pods(),
							n.cache.Err())
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
		testutil.Assert(t, calls == 2, "it was called %d times, want a failure and a success", calls)
	})
}

// Pods end, start and vanish while Adopt runs. Their events show no pod. After Adopt each adopted pod has its present
// state.
func TestEventsBeforeTheAdoptionShowNothing(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		old := n.createPod("old")
		n.start(old)
		late := n.createPod("late")
		adopt := func(ctx context.Context, _ []container.Summary) error {
			n.must(n.engine.StopContainer(ctx, old, 0))
			n.start(late)
			lost := n.createPod("lost")
			n.records.save(readyRecord(lost, "lost"))
			n.must(n.engine.RemoveContainer(ctx, lost))
			time.Sleep(time.Second)
			pods := n.cache.Snapshot().Pods()
			testutil.Assert(t, len(pods) == 0, "%v are shown before they are adopted", pods)
			n.records.save(readyRecord(old, "old"))
			n.records.save(readyRecord(late, "late"))
			return nil
		}
		n.cache = New(Options{Engine: n.engine, Records: n.records, Adopt: adopt})
		n.sync()
		for id, running := range map[string]bool{old: false, late: true} {
			pod, err := n.cache.Snapshot().Pod(id)
			n.must(err)
			testutil.Assert(t, pod.Status.NetnsPath != "" && pod.Status.Running == running &&
				pod.Meta.Config.GetLogDirectory() != "", "shown is %+v", pod)
		}
	})
}
