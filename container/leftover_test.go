package container

import (
	"errors"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// removeLeftover removes only a container whose id no client has. A container of an earlier sandbox of the pod can have
// the name, too.
func TestRemoveLeftover(t *testing.T) {
	for name, tt := range map[string]struct {
		// labels changes the labels of the container. before changes the container before the call.
		labels  func(map[string]string)
		before  func(n *node, engine *dockertest.Engine, pod, id string)
		removed bool
	}{
		"an unfinished create": {removed: true},
		"another CRI server's": {labels: func(l map[string]string) { delete(l, translate.LabelRecord) }},
		"an image has the labels": {labels: func(l map[string]string) {
			l[translate.LabelRecord] = strings.Replace(l[translate.LabelRecord], "k8s_c_", "k8s_other_", 1)
		}},
		"a client knows it": {before: func(n *node, _ *dockertest.Engine, pod, id string) {
			testutil.Must(n.t, n.saveRecord(n.t.Context(), pod, id, func(*checkpoint.Container) {}))
		}},
		"its pod has no record": {before: func(n *node, _ *dockertest.Engine, pod, _ string) {
			testutil.Must(n.t, n.store.Delete(n.t.Context(), pod))
		}},
		"its pod was removed": {removed: true, before: func(n *node, _ *dockertest.Engine, pod, _ string) {
			testutil.Must(n.t, n.store.Delete(n.t.Context(), pod))
			n.cache.RemovePod(pod)
		}},
		"it runs": {before: func(n *node, engine *dockertest.Engine, _, id string) {
			testutil.Must(n.t, engine.StartContainer(n.t.Context(), id))
		}},
		"it ran": {before: func(n *node, engine *dockertest.Engine, _, id string) {
			testutil.Must(n.t, engine.StartContainer(n.t.Context(), id))
			testutil.Must(n.t, engine.Exit(id, 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			pod := n.pod()
			draft, err := n.prepare(t.Context(), n.knownPod(pod), n.config("sleep"))
			testutil.Must(t, err)
			if tt.labels != nil {
				tt.labels(draft.spec.Config.Labels)
			}
			id, err := engine.CreateContainer(t.Context(), draft.spec)
			testutil.Must(t, err)
			if tt.before != nil {
				tt.before(n, engine, pod, id)
			}
			err = n.removeLeftover(t.Context(), draft.spec.Name)
			_, gone := engine.InspectContainer(t.Context(), id)
			if tt.removed {
				testutil.Assert(t, err == nil && errdefs.IsNotFound(gone), "%v, and inspect: %v", err, gone)
				return
			}
			testutil.Assert(t, errdefs.IsAlreadyExists(err) && strings.Contains(err.Error(), id) &&
				strings.Contains(err.Error(), "remove it first or use a higher attempt"), "%v", err)
			testutil.Check(t, gone, "the container")
		})
	}
}

// A failed Create leaves a container whose id no client has. The next Create of the name replaces the container, and
// the removal of the pod removes it, even if the cache lacks it.
func TestUnfinishedCreate(t *testing.T) {
	broken := errors.New("broken")
	for name, calls := range map[string]map[string]dockertest.Fault{
		"a lost answer":      {"CreateContainer": {Err: broken, AfterEffect: true}},
		"a failed roll-back": {"InspectContainer": {Err: broken}, "RemoveContainer": {Err: broken}},
	} {
		for after, act := range map[string]func(n *node, pod string) error{
			"create again": func(n *node, pod string) error {
				return n.Remove(n.t.Context(), n.create(pod, n.config("sleep")))
			},
			"remove the pod": func(n *node, pod string) error { return n.RemoveUnfinished(n.t.Context(), pod) },
		} {
			t.Run(name+", "+after, func(t *testing.T) {
				n, engine := newFakeNode(t)
				pod := n.pod()
				var repair []func()
				for call, fault := range calls {
					repair = append(repair, engine.Inject(call, fault))
				}
				_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
				testutil.FailsWith(t, err, broken, "Create")
				for _, remove := range repair {
					remove()
				}
				list, err := engine.ListContainers(t.Context(), map[string]string{translate.LabelSandboxID: pod})
				testutil.Require(t, err == nil && len(list) == 1, "the engine has %v of the pod, %v", list, err)
				n.cache.RemoveContainer(list[0].ID) // as if its event was lost
				testutil.Must(t, act(n, pod))
				n.wantNothing(pod)
				testutil.Equal(t, len(n.unfinishedIn(pod)), 0, "unfinished creates")
			})
		}
	}
}
