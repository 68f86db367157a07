package chaos

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/numbered"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestEngineKilledWhileAContainerWrites kills dockerd in the middle of a container's output. Output that dockerd had
// only in its memory is lost, and a record may be cut short. All lines that `docker logs` reads, and all later ones,
// are in the CRI log, once and in order.
func TestEngineKilledWhileAContainerWrites(t *testing.T) {
	const bursts, burst, kills = 25, 6000, 2 // 21 MB in the engine's files, less than it keeps
	env := rigenv.Require(t)
	eng := newEngine(t, &env, true)
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env}), inBursts(bursts, burst, "0.05")+
		fmt.Sprintf("; await end; lines %d %d", bursts*burst+1, bursts*burst+10))
	for range kills {
		time.Sleep(400 * time.Millisecond)
		eng.Kill()
		testutil.Must(t, eng.Start(t.Context()))
	}
	w.awaitLine(bursts * burst)
	w.signal("end")
	w.awaitLine(bursts*burst + 10) // at once: criadapter does not wait for the missing bytes of a torn record
	w.awaitExit()
	ours, theirs := contents(t, w.logPath), dockerLogs(t, env, w.id)
	missing := notIn(ours, theirs)
	whole, torn := untorn(ours, theirs)
	got, err := numbered.CountLines(bursts*burst+10, whole)
	testutil.Must(t, err)
	fmt.Printf(
		"logs: dockerd killed %d times: %v, %d torn; docker logs has %d lines, %d of them are not in the CRI log\n",
		kills, got, torn, len(theirs), missing)
	if missing != 0 || got.Repeated != 0 || len(got.Marks) != 0 || got.Read+torn < len(theirs) || torn > kills {
		t.Errorf("%v, %d torn; the numbers jump from %v", got, torn, got.Gaps)
	}
}

// untorn returns the whole lines, and the number of torn lines. dockerd dies with the beginning of a line in its
// memory, and the next dockerd reads the rest. So `docker logs` has the torn line, too.
func untorn(lines, theirs []string) (whole []string, torn int) {
	for _, line := range lines {
		if _, err := numbered.Number(line); err != nil && slices.Contains(theirs, line) {
			torn++
		} else {
			whole = append(whole, line)
		}
	}
	return whole, torn
}

// newEngine starts an engine for this test alone and puts it into env. On a shared engine, another criadapter would
// take over the containers while the test's own is dead.
func newEngine(t *testing.T, env *rigenv.Env, liveRestore bool) *engine.Engine {
	t.Helper()
	eng := engine.ForTest(t, engine.Options{Env: *env, Config: map[string]any{"live-restore": liveRestore}})
	*env = eng.Use(*env)
	return eng
}

// ownEngine is rigenv.Require with an engine for this test alone, whose containers outlive it.
func ownEngine(t *testing.T) rigenv.Env {
	t.Helper()
	env := rigenv.Require(t)
	newEngine(t, &env, true)
	return env
}

// dockerLogs returns the lines that `docker logs` prints.
func dockerLogs(t *testing.T, env rigenv.Env, id string) []string {
	t.Helper()
	cli, err := client.New(client.WithHost(env.DockerHost))
	testutil.Must(t, err)
	defer cli.Close()
	stream, err := cli.ContainerLogs(t.Context(), id, client.ContainerLogsOptions{ShowStdout: true})
	testutil.Must(t, err)
	defer stream.Close()
	var stdout bytes.Buffer
	if err := docker.Demultiplex(&stdout, io.Discard, stream); err != nil {
		t.Logf("docker logs ends with: %v", err)
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
}

// notIn returns how many of the lines are not among all.
func notIn(all, lines []string) int {
	have := make(map[string]bool, len(all))
	for _, line := range all {
		have[line] = true
	}
	missing := 0
	for _, line := range lines {
		if !have[line] {
			missing++
		}
	}
	return missing
}
