package container

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A container's label replaces the attribute of the same name in the engine's events. Here the label exitCode makes
// each event say that the command succeeded, and the label execID makes it name another command.
func TestRigExecSyncWithForgedEvents(t *testing.T) {
	n := newRigNode(t)
	config := n.config("sleep", "1000")
	forge(config)
	id := n.started(n.pod(), config)
	for range 5 {
		got, err := n.ExecSync(t.Context(), id,
			ExecRequest{Command: []string{"sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 3"}})
		testutil.Assert(t, err == nil && got.ExitCode == 3, "ExecSync: %v, %v", got, err)
	}
}
