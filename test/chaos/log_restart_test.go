package chaos

import (
	"fmt"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// TestContainerStartedByOthers ends and starts a container behind criadapter's back. Its log goes on.
func TestContainerStartedByOthers(t *testing.T) {
	const burst = 500
	env := ownEngine(t)
	// Each run continues the line numbers of the previous run.
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env}), fmt.Sprintf(
		`n=$(cat /control/n 2>/dev/null || echo 0); echo $((n + %d)) > /control/n; lines $((n + 1)) $((n + %d)); `+
			`await end$((n + %d))`, burst, burst, burst))
	docker := func(args ...string) {
		t.Helper()
		engine.Docker(t, env.DockerHost, args...)
	}
	w.awaitLine(burst)
	docker("restart", "--time", "0", w.id)
	w.awaitLine(2 * burst)
	w.signal(fmt.Sprint("end", 2*burst))
	w.awaitExit()
	docker("start", w.id)
	w.awaitLine(3 * burst)
	w.server.Kill() // after its restart, criadapter follows the log again
	docker("restart", "--time", "0", w.id)
	w.restart()
	w.awaitLine(4 * burst)
	w.signal(fmt.Sprint("end", 4*burst))
	w.awaitExit()
	got := count(t, 4*burst, w.logPath)
	fmt.Printf("logs: a container started again three times by others: %v\n", got)
	testutil.Assert(t, got.Lost == 0 && got.Repeated == 0 && len(got.Marks) == 0 && len(got.Gaps) == 0,
		"%v; the numbers jump from %v", got, got.Gaps)
}
