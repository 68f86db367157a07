package migrate

import (
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A restarted sandbox has lost its addresses with its first network namespace. A pin of its second network namespace
// would hide the loss.
func TestNamespaceOfARestartedSandboxIsNotPinned(t *testing.T) {
	for restarted, note := range map[bool]string{false: "", true: "was restarted"} {
		f := newFixture(t)
		id := f.sandbox(&container.HostConfig{NetworkMode: "none"})
		testutil.Must(t, f.engine.StartContainer(t.Context(), id))
		if restarted {
			testutil.Must(t, f.engine.StopContainer(t.Context(), id, 0))
			testutil.Must(t, f.engine.StartContainer(t.Context(), id))
		}
		pod := f.plan().pods[0]
		testutil.Assert(t, (pod.pid == 0) == restarted && strings.Contains(strings.Join(pod.notes, "\n"), note),
			"restarted %v: planned with the process %d and notes %q", restarted, pod.pid, pod.notes)
	}
}
