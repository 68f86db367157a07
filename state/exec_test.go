package state

import (
	"testing"
	"testing/synctest"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
)

func TestWatchExecGetsTheExitCode(t *testing.T) {
	opts := dockertest.Options{Programs: []dockertest.Program{
		{Command: "seven", Exits: true, ExitCode: 7},
		{Command: "zero", Exits: true},
	}}
	onNode(t, opts, func(n *node) {
		_, id := n.startContainer("app")
		n.sync()
		run := func(command string, watch bool) <-chan int {
			execID, err := n.engine.CreateExec(n.Context(), id, docker.ExecOptions{Command: []string{command}})
			n.must(err)
			exit, cancel := n.cache.WatchExec(execID)
			if !watch {
				cancel()
				cancel()
			}
			stream, err := n.engine.AttachExec(n.Context(), execID, docker.ExecOptions{})
			n.must(err)
			synctest.Wait()
			n.must(stream.Close())
			return exit
		}
		for command, want := range map[string]int{"seven": 7, "zero": 0} {
			select {
			case got := <-run(command, true):
				if got != want {
					n.Errorf("%s: exit code %d, want %d", command, got, want)
				}
			default:
				n.Errorf("%s: no exit code", command)
			}
		}
		select {
		case got := <-run("seven", false):
			n.Errorf("a cancelled watch got %d", got)
		default:
		}
		if left := len(n.cache.execs.waits); left != 0 {
			n.Errorf("%d watches are left", left)
		}
	})
}
