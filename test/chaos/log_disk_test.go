package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// smallLogDisk puts the logs of a server's pods on a disk of 1 MB.
func smallLogDisk(t *testing.T, server *adapter.Server) string {
	t.Helper()
	dir := filepath.Join(server.Dir, "logs")
	testutil.Must(t, os.Mkdir(dir, 0o755))
	testutil.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() {
		testutil.Check(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return dir
}

// TestLogDiskIsFull lets a container write more than its log's disk has room for. The container is not blocked, and its
// log is whole once there is room again.
func TestLogDiskIsFull(t *testing.T) {
	const lines = 30_000 // 3 MB of output, and about 4 MB in the CRI format
	env := ownEngine(t)
	server := adapter.ForTest(t, adapter.Options{Env: env})
	disk := smallLogDisk(t, server)
	w := newWriter(t, env, server, fmt.Sprintf("lines 1 %d; touch /control/written; await end", lines))
	w.await("written")
	testutil.Eventually(t, func() error {
		var stat unix.Statfs_t
		if err := unix.Statfs(disk, &stat); err != nil || stat.Bavail > 16 {
			return fmt.Errorf("the disk is not full: %d blocks, %v", stat.Bavail, err)
		}
		return nil
	})
	// the log ends with a whole line
	got := count(t, lines, w.logPath)
	testutil.Assert(t, got.Read < lines && got.Repeated == 0 && len(got.Gaps) == 0, "on the full disk: %v", got)
	w.server.Kill()
	w.restart()
	testutil.Must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "size=16m"))
	w.awaitLine(lines)
	w.signal("end")
	w.awaitExit()
	got = count(t, lines, w.logPath)
	fmt.Printf("logs: the disk full, criadapter killed meanwhile, then room again: %v\n", got)
	testutil.Assert(t, got.Lost == 0 && got.Repeated == 0 && len(got.Marks) == 0 && len(got.Gaps) == 0,
		"%v; the numbers jump from %v", got, got.Gaps)
}

// TestExitOnAFullLogDisk: a full log disk delays a container's exit and removal by no more than criadapter's limits.
func TestExitOnAFullLogDisk(t *testing.T) {
	// mostExit is exitDrainTimeout of 2 s, and 4 s for a busy machine. mostRemoval is removeDrainTimeout.
	const mostExit, mostRemoval = 6 * time.Second, 10 * time.Second
	env := rigenv.Require(t)
	server := adapter.ForTest(t, adapter.Options{Env: env})
	smallLogDisk(t, server)
	w := newWriter(t, env, server, "await begin; lines 1 30000; touch /control/written; exit 3")
	w.signal("begin")
	w.await("written")
	began := time.Now()
	w.awaitExit()
	exit := time.Since(began)
	answer, err := server.Runtime.ContainerStatus(t.Context(), w.id, false)
	testutil.Assert(t, err == nil && answer.GetStatus().GetExitCode() == 3,
		"exit code %d, %v", answer.GetStatus().GetExitCode(), err)
	began = time.Now()
	err = server.Runtime.RemoveContainer(t.Context(), w.id)
	removal := time.Since(began)
	fmt.Printf("logs: on a full disk the exit is seen after %v, the removal takes %v\n", exit.Round(time.Millisecond),
		removal.Round(time.Millisecond))
	testutil.Check(t, err, "the removal")
	speed.Check(t, "the exit", exit, mostExit)
	speed.Check(t, "the removal", removal, mostRemoval)
	listed, err := server.Runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: w.id})
	if err == nil && len(listed) != 0 {
		err = errors.New("the container is still listed")
	}
	testutil.Check(t, err)
}
