package container

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A cron job with docker container prune, or docker rm --force, removes containers before the kubelet has seen their
// end. The end stays until the kubelet removes the container, also over a restart.
func TestRigEndOfAContainerThatOthersRemove(t *testing.T) {
	for name, test := range map[string]struct {
		script   string
		ended    bool
		exitCode int
	}{
		"after its end": {"echo up; exit 7", true, 7},
		"running":       {"echo up; exec sleep 600", false, 137},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRigNode(t)
			id := n.shell(test.script)
			n.isUp(id)
			if test.ended {
				n.waitState(id, exited)
			}
			testutil.Must(t, n.engine.RemoveContainer(t.Context(), id), "remove it behind the server's back")
			n.waitState(id, exited)
			c := n.look(id)
			testutil.Assert(t, c.Status.ExitCode == test.exitCode && !c.Status.FinishedAt.IsZero(),
				"the end is %+v, want exit code %d", c.Status, test.exitCode)
			testutil.Equal(t, len(contents(t, c.Meta.LogPath)), 1, "lines of its log")
			n.restart(func() {})
			testutil.Equal(t, len(n.unresumed.take()), 0, "logs that are still to be completed")
			c = n.look(id)
			testutil.Assert(t, c.Status.ExitCode == test.exitCode, "after a restart the end is %+v", c.Status)
			testutil.Must(t, n.Remove(t.Context(), id))
			_, err := n.cache.Snapshot().Container(id)
			testutil.Assert(t, err != nil, "the container is still there after Remove")
		})
	}
}
