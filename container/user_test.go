package container

import (
	"errors"
	"reflect"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// The cache keeps the user of a container after its end, and after a restart of criadapter.
func TestUserOfAnExitedContainer(t *testing.T) {
	n, engine := newFakeNode(t)
	for name, create := range map[string]func() string{
		"without a log": func() string { return n.create(n.pod(), n.config("sleep")) },
		"with a log": func() string {
			id, _ := n.logged(n.pod(), "sleep")
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := create()
			n.start(id)
			want := &docker.Identity{UID: 1000, GID: 3000, Groups: []uint32{3000, 5000}}
			// An engine in memory has no processes to read the user from.
			n.cache.UpdateContainer(id, func(status *state.ContainerStatus) { status.Identity = want })
			n.exit(engine, id, 1)
			for _, when := range []string{"after its end", "after a restart"} {
				got := n.look(id).Status.Identity
				testutil.Assert(t, reflect.DeepEqual(got, want), "%s: %+v, want %+v", when, got, want)
				n.restart(func() {})
			}
		})
	}
}

func TestRigUserOfAnExitedContainer(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("while true; do sleep 0.05; done")
	want := n.look(id).Status.Identity
	testutil.Require(t, want != nil, "its user is unknown")
	testutil.Must(t, n.Stop(t.Context(), id, 0))
	testutil.Eventually(t, func() error { // Stop does not wait for a slow disk
		kept, err := n.store.LoadContainer(t.Context(), n.look(id).SandboxID, id)
		if err == nil && kept.User == nil {
			err = errors.New("the record has no user")
		}
		return err
	})
	for _, when := range []string{"after its end", "after a restart"} {
		got := n.look(id).Status.Identity
		testutil.Assert(t, reflect.DeepEqual(got, want), "%s: %+v, want %+v", when, got, want)
		n.restart(func() {})
	}
}
