package state

import (
	"testing"
	"testing/synctest"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestWatchExec(t *testing.T) {
	opts := dockertest.Options{Programs: []dockertest.Program{
		{Command: "seven", Exits: true, ExitCode: 7},
		{Command: "zero", Exits: true},
	}}
	onNode(t, opts, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		run := func(command string, watch bool) <-chan struct{} {
			execID, err := n.engine.CreateExec(n.Context(), id, docker.ExecOptions{Command: []string{command}})
			n.must(err)
			ended, cancel := n.cache.WatchExec(execID)
			if !watch {
				cancel()
				cancel()
			}
			stream, err := n.engine.AttachExec(n.Context(), execID, docker.ExecOptions{})
			n.must(err)
			synctest.Wait()
			n.must(stream.Close())
			return ended
		}
		for _, command := range []string{"seven", "zero"} {
			select {
			case <-run(command, true):
			default:
				n.Errorf("%s: the end of the exec is not reported", command)
			}
		}
		select {
		case <-run("seven", false):
			n.Errorf("a cancelled watch reports an end")
		default:
		}
		testutil.Equal(n, len(n.cache.execs.waits), 0, "watches are left")
	})
}
