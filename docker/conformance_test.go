package docker_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// rigImage is the catalogue's image with busybox.
const rigImage = "test/busybox:latest"

// dialRig returns a client of the rig's engine, which has rigImage.
func dialRig(t testing.TB, env rigenv.Env) *docker.Client {
	t.Helper()
	client, err := docker.Dial(docker.Options{Host: env.DockerHost, RequestTimeout: testutil.Patience})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	testutil.Must(t, client.PullImage(rigContext(t), env.Image(rigImage), docker.PullOptions{}))
	return client
}

func rigContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

// uniquePrefix returns a prefix for the names of a test's containers and images. Packages share the rig's engine.
func uniquePrefix(name string) string {
	return fmt.Sprintf("docker-%s-%d", name, os.Getpid())
}

func TestConformance(t *testing.T) {
	env := rigenv.Require(t)
	client := dialRig(t, env)
	dockertest.Conformance(t, dockertest.Subject{
		Engine:   client,
		Image:    env.Image(rigImage),
		Pullable: env.Image("test/multi:a"),
		Absent:   env.Image("test/multi:absent"),
		Prefix:   uniquePrefix("conformance"),
		Needs:    rigenv.RequireControllers,
	})
}
