package container

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// accounting is a plugin that records the new containers that it was asked about, without containers whose creation was
// undone.
type accounting struct {
	withoutPlugins
	n *node
	// limits and err are the plugin's answer to a new container. answering, if not nil, is called before the answer.
	limits    *runtimeapi.LinuxContainerResources
	err       error
	answering func()
	has       map[string]bool
	started   []string
}

func (a *accounting) CreateContainer(
	_ context.Context, _ *state.Pod, c *state.Container,
) (*ocinote.Adjustment, *runtimeapi.LinuxContainerResources, error) {
	a.has[c.ID] = true
	if a.answering != nil {
		a.answering()
	}
	return nil, a.limits, a.err
}

func (a *accounting) UndoContainer(ctx context.Context, pod *state.Pod, c *state.Container) {
	list, err := a.n.engine.ListContainers(ctx, nil)
	testutil.Check(a.n.t, err)
	testutil.Assert(a.n.t, slices.ContainsFunc(list, func(l container.Summary) bool { return l.ID == c.ID }),
		"the engine removed the container before UndoContainer")
	testutil.Assert(a.n.t, pod.ID == c.SandboxID && c.Meta.Config != nil, "pod %v, container %v", pod, c)
	delete(a.has, c.ID)
}

func (a *accounting) ContainerStarted(_ context.Context, _ *state.Pod, c *state.Container) {
	a.started = append(a.started, c.ID)
}

// Plugins hear of a container that the engine has started, even if the engine's answer is lost.
func TestPluginsHearOfAStartWithALostAnswer(t *testing.T) {
	n, engine := newFakeNode(t)
	a := &accounting{n: n, has: map[string]bool{}}
	n.opts.Plugins = a
	id := n.create(n.pod(), n.config("sleep"))
	for _, effect := range []bool{false, true} {
		engine.Inject("StartContainer", dockertest.Fault{AfterEffect: effect, Times: 1})
		testutil.Fails(t, n.Start(t.Context(), id), errdefs.IsUnavailable, "Start")
		testutil.Equal(t, slices.Contains(a.started, id), effect, "plugins heard of the start")
	}
}

// Plugins that were asked about a new container hear when its creation is undone.
func TestPluginsHearOfAnUndoneContainer(t *testing.T) {
	for name, breakIt := range map[string]func(*accounting, *dockertest.Engine, context.CancelFunc){
		"a plugin refuses it": func(a *accounting, _ *dockertest.Engine, _ context.CancelFunc) {
			a.err = errors.New("not here")
		},
		"the engine refuses a plugin's limits": func(a *accounting, engine *dockertest.Engine, _ context.CancelFunc) {
			a.limits = &runtimeapi.LinuxContainerResources{CpuShares: 512}
			engine.Inject("UpdateContainer", dockertest.Fault{Err: errors.New("broken")})
		},
		"the client and the engine go away": func(a *accounting, engine *dockertest.Engine, cancel context.CancelFunc) {
			a.answering = cancel
			engine.Inject("InspectContainer", dockertest.Fault{Err: errors.New("broken")})
		},
		"the pod stops": func(a *accounting, _ *dockertest.Engine, _ context.CancelFunc) {
			a.answering = func() {
				for _, pod := range a.n.cache.Snapshot().Pods() {
					a.n.cache.UpdatePod(pod.ID, func(s *state.PodStatus) { s.Stopping = true })
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			a := &accounting{n: n, has: map[string]bool{}}
			n.opts.Plugins = a
			pod := n.pod()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			breakIt(a, engine, cancel)
			_, err := n.Create(ctx, pod, n.config("sleep"), nil)
			testutil.Assert(t, err != nil, "Create succeeded")
			testutil.Equal(t, len(a.has), 0, "containers that plugins have")
			n.wantNothing(pod)
		})
	}
}

// A plugin names the keys and page sizes that it changes.
func TestPluginLimitsAreCompleted(t *testing.T) {
	type r = runtimeapi.LinuxContainerResources
	pages := func(limits ...uint64) (list []*runtimeapi.HugepageLimit) {
		for i, limit := range limits {
			list = append(list, &runtimeapi.HugepageLimit{PageSize: []string{"2MB", "1GB"}[i], Limit: limit})
		}
		return list
	}
	old := &r{Unified: map[string]string{"memory.oom.group": "1", "memory.high": "5"}, HugepageLimits: pages(0, 0)}
	before := proto.CloneOf(old)
	for name, c := range map[string]struct{ limits, want *r }{
		"none": {&r{CpuShares: 2}, &r{CpuShares: 2}},
		"a key": {&r{Unified: map[string]string{"memory.high": "6"}},
			&r{Unified: map[string]string{"memory.oom.group": "1", "memory.high": "6"}}},
		"a page size": {&r{HugepageLimits: pages(8)}, &r{HugepageLimits: pages(8, 0)}},
	} {
		got := completed(c.limits, old)
		testutil.Assert(t, proto.Equal(got, c.want), "%s: got %v, want %v", name, got, c.want)
		testutil.Assert(t, proto.Equal(old, before), "%s: the old limits became %v", name, old)
	}
	got := completed(&r{Unified: map[string]string{"memory.high": "6"}}, nil)
	testutil.Equal(t, got.GetUnified()["memory.high"], "6", "the first key of a container")
}
