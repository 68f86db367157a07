package e2e

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestStatsTellThePressure runs more busy processes than there are CPUs. Some of them wait for a CPU. The stats of the
// container and of its pod must have the waiting time.
func TestStatsTellThePressure(t *testing.T) {
	if _, err := os.Stat("/proc/pressure/cpu"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel accounts no pressure")
	}
	w := newWorker(t)
	before, podBefore := w.stats(), w.podStats()
	if before.GetCpu().GetPsi().GetSome() == nil {
		t.Skip("containers here are in no cgroup of version 2, which alone has pressure")
	}
	began := time.Now()
	// The kernel ends each process after a second of CPU time.
	w.do("for i in $(seq $((2 * $(nproc) + 1))); do sh -c 'ulimit -t 1; while :; do :; done' 2>/dev/null & done; wait")
	took := time.Since(began)
	now, podNow := w.stats(), w.podStats()
	for what, waited := range map[string]time.Duration{
		"container": time.Duration(
			now.GetCpu().GetPsi().GetSome().GetTotal() - before.GetCpu().GetPsi().GetSome().GetTotal()),
		"pod": time.Duration(
			podNow.GetLinux().GetCpu().GetPsi().GetSome().GetTotal() - podBefore.GetLinux().GetCpu().GetPsi().GetSome().
				GetTotal()),
	} {
		testutil.Assert(t, waited >= took/2 && waited <= took+time.Second,
			"processes of the %s waited for %v of %v", what, waited, took)
	}
	memory := now.GetMemory().GetPsi()
	testutil.Assert(t, memory.GetSome() != nil && memory.GetFull() != nil, "no pressure for memory: %v", memory)
	testutil.Assert(t, now.GetIo().GetPsi().GetSome() != nil, "no pressure for input and output: %v", now.GetIo())
}
