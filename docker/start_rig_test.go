package docker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestRigStartsOfOneShimGroup starts each container of a pod about when the previous container ends, as restarts do in
// a pod without a sandbox container. So a start may meet the pod's shim while the shim ends with the previous
// container.
func TestRigStartsOfOneShimGroup(t *testing.T) {
	env := rigenv.Require(t)
	engine := dialRig(t, env)
	ctx := t.Context()
	features, err := engine.Features(ctx)
	testutil.Must(t, err)
	if !features.Supports("1.43") {
		t.Log("the engine passes no annotations, each container has a shim of its own")
		return
	}
	prefix := uniquePrefix("group")
	ids := make([]string, 100)
	for i := range ids {
		ids[i], err = engine.CreateContainer(ctx, docker.ContainerSpec{
			Name:   fmt.Sprintf("%s-%d", prefix, i),
			Config: &container.Config{Image: env.Image(rigImage), Cmd: []string{"true"}},
			Host: &container.HostConfig{
				NetworkMode: "none", Annotations: map[string]string{"io.containerd.runc.v2.group": prefix},
			},
		})
		testutil.Must(t, err)
		defer func() { testutil.Check(t, engine.RemoveContainer(rigContext(t), ids[i])) }()
	}
	for i, id := range ids {
		testutil.Check(t, engine.StartContainer(ctx, id))
		if i%2 == 0 {
			time.Sleep(rand.N(30 * time.Millisecond)) // about when the program ends
			continue
		}
		testutil.Eventually(t, func() error {
			inspect, err := engine.InspectContainer(ctx, id)
			if err == nil && inspect.State.Running {
				err = fmt.Errorf("container %d runs", i)
			}
			return err
		})
	}
}
