package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/numbered"
)

// TestKilledWithManyContainers kills criadapter while a hundred containers write. Each of their logs has each line
// once.
func TestKilledWithManyContainers(t *testing.T) {
	const containers, kills = 100, 3
	env := ownEngine(t)
	first := newWriter(t, env, adapter.ForTest(t, adapter.Options{Env: env}), manyScript)
	writers := first.siblings(containers, manyScript)
	for range kills {
		first.server.Kill()
		time.Sleep(time.Second)
		began := time.Now()
		first.restart()
		fmt.Printf("logs: criadapter answers %v after its start with %d containers\n",
			time.Since(began).Round(time.Millisecond), containers)
		time.Sleep(500 * time.Millisecond)
	}
	first.signal("end")
	var sum numbered.Tally
	for i, w := range writers {
		w.awaitExit()
		text, err := os.ReadFile(filepath.Join(w.control, filepath.Base(filepath.Dir(w.logPath))))
		testutil.Must(t, err)
		written, err := strconv.Atoi(strings.TrimSpace(string(text)))
		testutil.Must(t, err)
		got := count(t, written, w.logPath)
		if got.Written < kills || got.Lost != 0 || got.Repeated != 0 || len(got.Marks) != 0 || len(got.Gaps) != 0 {
			t.Errorf("container %d: %v; the numbers jump from %v", i, got, got.Gaps)
		}
		sum.Written, sum.Read = sum.Written+got.Written, sum.Read+got.Read
		sum.Lost, sum.Repeated = sum.Lost+got.Lost, sum.Repeated+got.Repeated
	}
	fmt.Printf("logs: criadapter killed %d times with %d containers: %v\n", kills, containers, sum)
}

// manyScript writes a line each second, and a last one when it is signalled to end. The number of its lines goes into a
// file with the container's name.
const manyScript = `i=0; say() { i=$((i + 1)); printf 'line %08d %085d\n' $i 0; }; until [ -e /control/end ]; do ` +
	`say; sleep 1; done; say; echo $i >/control/$0`
