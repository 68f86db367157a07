package state

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Exit hooks run concurrently. A full log disk delays each exit by its own hook only.
func TestExitsInMassAreNotDelayedByEachOther(t *testing.T) {
	const containers, hook = 100, 2 * time.Second
	onNodes(t, dockertest.Options{}, map[string]func(n *node, exit func()){
		"from events": func(_ *node, exit func()) { exit() },
		"found by the relist": func(n *node, exit func()) {
			n.engine.Away()
			exit()
			n.engine.Back()
		},
	}, func(n *node, exits func(n *node, exit func())) {
		var ids []string
		for i := range containers {
			_, id := n.startContainer(fmt.Sprint("app", i))
			ids = append(ids, id)
		}
		n.cache.OnExit(func(context.Context, *Container) { time.Sleep(hook) })
		n.sync()
		exits(n, func() {
			for _, id := range ids {
				n.must(n.engine.Exit(id, 0))
			}
		})
		time.Sleep(hook + time.Second)
		synctest.Wait()
		late := 0
		for _, id := range ids {
			if n.container(id).Status.State() != exited {
				late++
			}
		}
		testutil.Assert(n, late == 0,
			"%d of %d exits are not published after %v", late, containers, hook+time.Second)
	})
}

// Inspects that hang delay the exit of another container by inspectPatience at most.
func TestExitIsNotDelayedByInspectsThatHang(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		var hanging []string
		for i := range maxRefreshes {
			_, id := n.startContainer(fmt.Sprint("hangs", i))
			hanging = append(hanging, id)
		}
		_, healthy := n.startContainer("healthy")
		n.sync()
		for _, id := range hanging {
			n.engine.Inject("InspectContainer", dockertest.Fault{Object: id, Block: true})
			n.must(n.engine.Exit(id, 0))
		}
		caughtUp()
		n.must(n.engine.Exit(healthy, 0))
		time.Sleep(inspectPatience + time.Second)
		synctest.Wait()
		n.wantContainer(healthy, exited)
	})
}
