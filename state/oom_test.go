package state

import (
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Docker 20.10 may report an out-of-memory kill after the exit that it caused. Its inspect then never reports it.
func TestOutOfMemoryKillIsKnownFromItsEvent(t *testing.T) {
	oom := func(n *node, id string) { n.cache.handle(t.Context(), docker.Event{Kind: docker.ContainerOOM, ID: id}) }
	exit := func(code int) func(*node, string) {
		return func(n *node, id string) { n.must(n.engine.Exit(id, code)); settle() }
	}
	again := func(n *node, id string) { n.start(id); settle() }
	type testCase struct {
		steps []func(*node, string)
		want  bool
	}
	onNodes(t, dockertest.Options{}, map[string]testCase{
		"before the exit":                     {[]func(*node, string){oom, exit(137)}, true},
		"after the exit":                      {[]func(*node, string){exit(137), oom}, true},
		"of another process":                  {[]func(*node, string){oom, exit(0)}, false},
		"in an earlier run":                   {[]func(*node, string){oom, exit(137), again, exit(137)}, false},
		"not at all, killed by SIGKILL":       {[]func(*node, string){exit(137)}, false},
		"of a container that ended by itself": {[]func(*node, string){exit(1), oom}, false},
		"twice before the exit":               {[]func(*node, string){oom, oom, exit(137)}, true},
	}, func(n *node, test testCase) {
		n.follow()
		_, id := n.startContainer("app")
		settle()
		for _, step := range test.steps {
			step(n, id)
		}
		_, err := n.cache.RefreshContainer(n.Context(), id)
		n.must(err)
		testutil.Equal(n, n.container(id).Status.OOMKilled, test.want, "OOMKilled")
	})
}
