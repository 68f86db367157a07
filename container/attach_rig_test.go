package container

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Clients attach to containers that end at that very moment. Each session ends by itself. The client gets the
// container's output, or an error that says that the container has ended, and then reads the log.
func TestRigAttachToShortContainers(t *testing.T) {
	for _, input := range []bool{false, true} {
		t.Run(fmt.Sprintf("input=%t", input), func(t *testing.T) {
			n := newRigNode(t)
			pod := n.pod()
			var sessions sync.WaitGroup
			var mu sync.Mutex
			outcomes := map[string]int{}
			for i := range 50 {
				line := fmt.Sprintf("line %d", i)
				config := n.config("sh", "-c", fmt.Sprintf("echo %s; sleep 0.%03d", line, i%21))
				config.Metadata.Name = fmt.Sprintf("short-%d", i)
				config.LogPath = fmt.Sprintf("short/%d.log", i)
				config.Stdin = input
				id := n.started(pod, config)
				sessions.Go(func() {
					outcome := n.attachOnce(id, line, input)
					mu.Lock()
					defer mu.Unlock()
					outcomes[outcome]++
				})
				if i%4 == 3 {
					sessions.Wait()
				}
			}
			sessions.Wait()
			t.Logf("%v", outcomes)
			testutil.Assert(t, outcomes["output"]+outcomes["log"] == 50, "%v", outcomes)
		})
	}
}

// attachOnce attaches as a client does and returns where the client finds the line: output or log.
func (n *node) attachOnce(id, line string, withInput bool) string {
	ctx, cancel := context.WithTimeout(n.t.Context(), longRun)
	defer cancel()
	stdout, _, err := n.attach(ctx, id, withInput)
	switch {
	case ctx.Err() != nil:
		return "hung"
	case errdefs.IsFailedPrecondition(err):
		return n.outcomeOfLog(id, line)
	case err != nil:
		return err.Error()
	case strings.Count(stdout, line+"\n") == 1:
		return "output"
	}
	return fmt.Sprintf("wrote %q", stdout)
}

func (n *node) outcomeOfLog(id, line string) string {
	n.waitState(id, exited)
	if got := contents(n.t, n.look(id).Meta.LogPath); len(got) != 1 || got[0] != line {
		return fmt.Sprintf("logged %q", got)
	}
	return "log"
}
