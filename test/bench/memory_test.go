package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// podsAtRest is how many pods the memory figures are taken with.
const podsAtRest = 20

// BenchmarkMemoryAtRest reports what the server's process holds with twenty
// pods that do nothing.
func BenchmarkMemoryAtRest(b *testing.B) {
	env := rigenv.Require(b)
	server := adapter.ForTest(b, adapter.Options{Env: env, Flags: []string{"--log-level=info"}})
	for i := range podsAtRest {
		id, err := server.Runtime.RunPodSandbox(b.Context(), podConfig(fmt.Sprintf("rest-%d", i)), "")
		if err != nil {
			b.Fatal(err)
		}
		defer removePod(b, server, id)
	}
	for b.Loop() {
		time.Sleep(2 * time.Second) // the set-up's garbage and idle connections go
	}
	memory := processMemory(b, server.PID())
	fmt.Printf("memory with %d pods at rest: RSS %d kB, RssAnon %d kB\n", podsAtRest, memory["VmRSS"], memory["RssAnon"])
	b.ReportMetric(float64(memory["VmRSS"]), "RSS-kB")
	b.ReportMetric(float64(memory["RssAnon"]), "RssAnon-kB")
}

// processMemory reads the kB figures of /proc/PID/status.
func processMemory(tb testing.TB, pid int) map[string]int {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	figures := map[string]int{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if kB, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			if figures[name], err = strconv.Atoi(strings.TrimSpace(kB)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return figures
}
