package chaos

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// TestExitsInMassOnAFullLogDisk ends a hundred containers at once while their logs have no room. The exits do not wait
// for each other, and the logs are whole when there is room again.
func TestExitsInMassOnAFullLogDisk(t *testing.T) {
	const (
		containers = 100
		lines      = 300                          // 3 MB of output in all, and about 4 MB in the CRI format
		inTurn     = containers * 2 * time.Second // each exit waits two seconds for room
	)
	env := ownEngine(t)
	server := adapter.ForTest(t, adapter.Options{Env: env})
	disk := smallLogDisk(t, server)
	script := fmt.Sprintf("await begin; lines 1 %d; await end; exit 3", lines)
	first := newWriter(t, env, server, script)
	writers := first.siblings(containers, script)
	first.signal("begin")
	time.Sleep(3 * time.Second)
	began := time.Now()
	first.signal("end")
	took := awaitExits(t, server, containers, began)
	fmt.Printf("logs: of %d exits on a full disk the first is seen after %v, half after %v, the last after %v\n",
		containers, took[0].Round(time.Millisecond), took[containers/2].Round(time.Millisecond),
		took[containers-1].Round(time.Millisecond))
	speed.Check(t, "all exits, which must not wait for each other,", took[containers-1], inTurn/2)
	testutil.Must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"))
	for _, w := range writers {
		w.awaitLine(lines)
		got := count(t, lines, w.logPath)
		testutil.Assert(t, got.Lost == 0 && got.Repeated == 0, "%s: %v", w.logPath, got)
	}
}

// awaitExits returns how long after since each exit was seen, in order.
func awaitExits(t *testing.T, server *adapter.Server, containers int, since time.Time) (took []time.Duration) {
	t.Helper()
	for len(took) < containers && time.Since(since) < patience {
		state := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_EXITED}
		listed, err := server.Runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{State: state})
		testutil.Must(t, err)
		for len(took) < len(listed) {
			took = append(took, time.Since(since))
		}
		time.Sleep(20 * time.Millisecond)
	}
	testutil.Require(t, len(took) >= containers, "%d of %d exits were seen within %v", len(took), containers,
		patience)
	return took
}
