package chaos

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// TestLogBufferSize lets a container write much more output than the engine keeps. After each burst, the container
// waits until the whole burst is in the CRI log, so it writes no faster than criadapter reads.
func TestLogBufferSize(t *testing.T) {
	const bursts, burst, size = 40, 5000, 6_000_000 // 20 MB of lines
	env := ownEngine(t)
	flags := []string{"--container-log-buffer-size=6M"}
	w := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env, Flags: flags}), fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do lines $((i + 1)) $((i + %d)); i=$((i + %d)); await read$i; done",
		bursts*burst, burst, burst))
	var kept int64
	for read := burst; read <= bursts*burst; read += burst {
		w.awaitLine(read)
		kept = directorySize(t, filepath.Join(env.DockerRoot, "containers", w.id, "local-logs"))
		w.signal(fmt.Sprint("read", read))
	}
	w.awaitExit()
	got := count(t, bursts*burst, w.logPath)
	fmt.Printf("logs: with a buffer of %d bytes the engine keeps %d: %v\n", size, kept, got)
	testutil.Assert(t, kept <= size+size/100 && got.Lost == 0 && got.Repeated == 0,
		"the engine keeps %d bytes: %v", kept, got)
}
