package nri

import (
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// newContainer is an engine that has a new container.
type newContainer struct {
	Engine
	id string
}

func (e newContainer) InspectContainer(_ context.Context, id string) (*container.InspectResponse, error) {
	if id != e.id {
		return nil, errdefs.ErrNotFound
	}
	return &container.InspectResponse{}, nil
}

// limiter refuses containers that are unknown or have ended, as package container does.
type limiter struct {
	cache *state.Cache
	// before is called before each answer.
	before func()
}

func (l limiter) Limit(_ context.Context, id string, _ *runtimeapi.LinuxContainerResources) error {
	l.before()
	c, err := l.cache.Snapshot().Container(id)
	if err == nil && c.Status.State() == stateExited {
		err = errdefs.ErrFailedPrecondition
	}
	return err
}

// An answer of a plugin may change the limits of a container that has ended meanwhile. The request succeeds. But an
// update of a container that is just being made is not lost. UpdateContainers tells the plugin about each failure.
func TestUpdateOfContainerThatIsOver(t *testing.T) {
	for id, test := range map[string]struct {
		// before happens before the limits change.
		before       func(cache *state.Cache, id string)
		apply, asked bool
	}{
		"runs":            {apply: true, asked: true},
		"has ended":       {apply: true},
		"ends meanwhile":  {func(c *state.Cache, id string) { c.UpdateContainer(id, ended) }, true, true},
		"gone":            {apply: true},
		"goes meanwhile":  {(*state.Cache).RemoveContainer, true, true},
		"is just created": {asked: true},
	} {
		cache := state.New(state.Options{})
		runs(cache, "pod", "runs", "has ended", "ends meanwhile", "goes meanwhile")
		cache.UpdateContainer("has ended", ended)
		s := serviceOf(t, cache)
		s.opts.Engine = newContainer{id: "is just created"}
		asked := false
		s.containers = limiter{cache, func() {
			asked = true
			if test.before != nil {
				test.before(cache, id)
			}
		}}
		updates := []*api.ContainerUpdate{{ContainerId: id}}
		err := s.apply(t.Context(), updates)
		testutil.Assert(t, (err == nil) == test.apply && asked == test.asked, "%s: %v, asked: %v", id, err, asked)
		failed, err := s.update(t.Context(), updates)
		testutil.Assert(t, (err == nil) == (id == "runs") && (len(failed) == 0) == (id == "runs"),
			"%s, without a request: %v, %v", id, failed, err)
	}
}
