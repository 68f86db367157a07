package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/numbered"
)

// TestKilledUnderTheCap kills criadapter again and again at random moments, while a container writes and the kubelet
// rotates its log. The engine keeps the output meanwhile, so no line may be lost or repeated.
func TestKilledUnderTheCap(t *testing.T) {
	const (
		bursts, burst = 100, 200 // every 50 ms, that is about 4000 lines and 400 kB a second
		kills         = 6
	)
	env := ownEngine(t)
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env}), inBursts(bursts, burst, "0.05"))
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	rotations := 0
	for i := range kills {
		pause(700 * time.Millisecond)
		kill := func() { w.server.Kill() }
		switch i % 3 {
		case 1: // at some point of a rotation
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				time.Sleep(time.Duration(random.Int64N(int64(3 * time.Millisecond))))
				kill()
			}()
			if w.rotate(rotations) {
				rotations++
			}
			<-killed
		case 2:
			if w.rotate(rotations) {
				rotations++
			}
			fallthrough
		default:
			kill()
		}
		pause(300 * time.Millisecond)
		w.restart()
	}
	w.awaitExit()
	got := count(t, bursts*burst, rotatedLogs(t, w.logPath)...)
	fmt.Printf("logs: criadapter killed %d times under the engine's cap, %d rotations: %v\n", kills, rotations, got)
	testutil.Assert(t, rotations > 0, "no rotation succeeded")
	testutil.Assert(t, got.Lost == 0 && got.Repeated == 0 && len(got.Marks) == 0 && len(got.Gaps) == 0,
		"%v; the numbers jump from %v", got, got.Gaps)
}

// rotate rotates the log as the kubelet does, and reports whether it succeeded.
func (w *writer) rotate(number int) bool {
	w.t.Helper()
	rotated := fmt.Sprintf("%s.%03d", w.logPath, number)
	if err := os.Rename(w.logPath, rotated); err != nil {
		return false // the log does not exist again yet
	}
	if err := w.server.Runtime.ReopenContainerLog(w.t.Context(), w.id); err == nil {
		return true
	}
	testutil.Check(w.t, os.Rename(rotated, w.logPath))
	return false
}

// entriesMissing matches the estimate of missing entries in a numbered.Marker.
var entriesMissing = regexp.MustCompile(`about (\d+) entries`)

// TestKilledBeyondTheCap lets a container write more than the engine keeps while criadapter is dead. Each time, the
// lost lines are one gap. One marker in the log estimates their number, and the metrics agree with it. No line is
// repeated.
func TestKilledBeyondTheCap(t *testing.T) {
	const rounds, burst = 2, 400_000 // 40 MB of lines, more in the engine's format; the engine keeps 30 MB at most
	env := ownEngine(t)
	metrics := newMetrics(t, env)
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{metrics.Flag()}}), fmt.Sprintf(
		`i=0; for round in 1 2; do lines $((i + 1)) $((i + 1000)); await $round; lines $((i + 1001)) $((i + `+
			`%d)); touch /control/done$round; i=$((i + %d)); done; await end`,
		burst, burst))
	counted := 0
	for round := 1; round <= rounds; round++ {
		w.awaitLine((round-1)*burst + 1000)
		w.server.Kill()
		w.signal(strconv.Itoa(round))
		w.await("done" + strconv.Itoa(round))
		size := directorySize(t, filepath.Join(env.DockerRoot, "containers", w.id))
		testutil.Assert(t, size <= 31<<20, "the engine keeps %d bytes of the container's log", size)
		w.restart()
		w.awaitMark(round)
		testutil.Eventually(t, func() error { // the metric follows the marker a moment later
			if gaps := valueOf(t, metrics, "criadapter_log_gaps_total"); gaps != 1 { // since the restart
				return fmt.Errorf("the metric counts %v gaps", gaps)
			}
			return nil
		})
		counted += int(valueOf(t, metrics, "criadapter_log_missing_entries_total"))
	}
	w.awaitLine(rounds * burst)
	w.signal("end")
	w.awaitExit()
	got := count(t, rounds*burst, w.logPath)
	estimate := 0
	for _, mark := range got.Marks {
		if found := entriesMissing.FindStringSubmatch(mark); found != nil {
			n, err := strconv.Atoi(found[1])
			testutil.Must(t, err)
			estimate += n
		}
	}
	fmt.Printf(
		"logs: criadapter killed %d times beyond the engine's cap: %v, the markers say about %d, the metric %d\n",
		rounds, got, estimate, counted)
	testutil.Assert(t, got.Lost != 0 && got.Repeated == 0 && len(got.Marks) == rounds && len(got.Gaps) == rounds,
		"%v; the numbers jump from %v", got, got.Gaps)
	testutil.Assert(t, counted == estimate,
		"the metric says that %d lines are missing, the markers %d", counted, estimate)
	// The estimate also counts time in which the container wrote nothing.
	testutil.Assert(t, estimate >= got.Lost/2 && estimate <= got.Lost*5,
		"the markers say that about %d lines are missing, but %d are", estimate, got.Lost)
}

// awaitMark waits until the CRI log has count markers.
func (w *writer) awaitMark(count int) {
	w.t.Helper()
	testutil.Eventually(w.t, func() error {
		text, err := os.ReadFile(w.logPath)
		if err == nil && strings.Count(string(text), " F "+numbered.Marker) < count {
			err = fmt.Errorf("the log has less than %d markers", count)
		}
		return err
	})
}

// directorySize adds up the files in a directory and below.
func directorySize(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	testutil.Must(t, err)
	return sum
}
