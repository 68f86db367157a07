package container

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// writeLog appends lines to a container's log as the engine's local driver does.
func (n *node) writeLog(id string, lines ...string) {
	n.t.Helper()
	dir := filepath.Join(n.engineDir(id), "local-logs")
	testutil.Must(n.t, os.MkdirAll(dir, 0o700))
	file, err := os.OpenFile(filepath.Join(dir, "container.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	testutil.Must(n.t, err)
	defer file.Close()
	for _, line := range lines {
		m := protowire.AppendTag(nil, 1, protowire.BytesType)
		m = protowire.AppendString(m, "stdout")
		m = protowire.AppendTag(m, 2, protowire.VarintType)
		m = protowire.AppendVarint(m, uint64(time.Now().UnixNano()))
		m = protowire.AppendTag(m, 3, protowire.BytesType)
		m = protowire.AppendString(m, line)
		size := binary.BigEndian.AppendUint32(nil, uint32(len(m)))
		if _, err := file.Write(slices.Concat(size, m, size)); err != nil {
			n.t.Fatal(err)
		}
	}
}

// logged makes a created container with a log, and the engine's directory for it.
func (n *node) logged(sandboxID string, command ...string) (id, logPath string) {
	n.t.Helper()
	return n.loggedAt("c/0.log", sandboxID, n.config(command...))
}

// startLogged starts a container with a log in a pod of its own.
func (n *node) startLogged() (id, logPath string) {
	n.t.Helper()
	id, logPath = n.logged(n.pod(), "sleep")
	n.start(id)
	return id, logPath
}

// loggedAt is logged with a path and a configuration.
func (n *node) loggedAt(path, sandboxID string, config *runtimeapi.ContainerConfig) (id, logPath string) {
	n.t.Helper()
	config.LogPath = path
	id = n.create(sandboxID, config)
	n.engineDir(id)
	return id, n.look(id).Meta.LogPath
}

// contents are the lines of a CRI log without times and tags.
func contents(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	testutil.Must(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		testutil.Require(t, len(fields) == 4 && strings.HasSuffix(line, "\n"), "%q is no CRI log line", line)
		lines = append(lines, fields[3])
	}
	return lines
}

func numbered(first, last int) []string {
	var lines []string
	for i := first; i <= last; i++ {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	return lines
}

func (n *node) wantLog(path string, want []string) {
	n.t.Helper()
	got := contents(n.t, path)
	testutil.Assert(n.t, slices.Equal(got, want), "the log holds %d lines, want %d: %.300q", len(got), len(want), got)
}

// waitLog waits until the log has these lines and no others.
func (n *node) waitLog(path string, want []string) {
	n.t.Helper()
	testutil.Until(n.t, "the whole log", func() bool { return slices.Equal(contents(n.t, path), want) })
}

// A client that sees the exit finds the whole log.
func TestExitIsPublishedAfterTheLog(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	for i := range 20 {
		id, logPath := n.loggedAt(fmt.Sprintf("c/%d.log", i), pod, withAttempt(n.config("sleep"), uint32(i)))
		n.start(id)
		want := numbered(1, 500)
		n.writeLog(id, want...)
		testutil.Must(t, engine.Exit(id, 0))
		for n.look(id).Status.Running {
			time.Sleep(50 * time.Microsecond)
		}
		n.wantLog(logPath, want)
	}
}

func TestStopAndRemoveCompleteTheLog(t *testing.T) {
	n, _ := newFakeNode(t)
	for name, end := range map[string]func(id string) error{
		"stop":   func(id string) error { return n.Stop(t.Context(), id, 0) },
		"remove": func(id string) error { return n.Remove(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			id, logPath := n.startLogged()
			n.writeLog(id, numbered(1, 300)...)
			testutil.Must(t, end(id))
			n.wantLog(logPath, numbered(1, 300))
			testutil.Must(t, os.Remove(logPath))
		})
	}
}

func TestStartWithATakenLogPath(t *testing.T) {
	n, engine := newFakeNode(t)
	id, logPath := n.logged(n.pod(), "sleep")
	testutil.Must(t, os.Mkdir(logPath, 0o755))
	before := engine.Calls("StartContainer")
	n.refusesStart(id)
	n.wantState(id, created)
	testutil.Assert(t, engine.Calls("StartContainer") == before, "the container was started without its log")
	testutil.Must(t, os.Remove(logPath))
	n.start(id)
}

func TestFailedStartEndsTheLog(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "nosuch", Start: errdefs.ErrInvalidArgument})
	id, _ := n.logged(n.pod(), "nosuch")
	err := n.Start(t.Context(), id)
	testutil.Require(t, err != nil, "Start succeeded")
	testutil.Fails(t, n.logs.Reopen(t.Context(), id), errdefs.IsFailedPrecondition,
		"the log of a container that never ran is still followed")
}

func TestRecoverOfARunningContainer(t *testing.T) {
	n, engine := newFakeNode(t)
	id, logPath := n.startLogged()
	for round := range 5 {
		n.writeLog(id, numbered(round*20+1, round*20+10)...)
		n.restart(func() { n.writeLog(id, numbered(round*20+11, round*20+20)...) })
	}
	n.exit(engine, id, 0)
	n.wantLog(logPath, numbered(1, 100))
}

func TestRecoverOfAContainerThatEndedMeanwhile(t *testing.T) {
	n, engine := newFakeNode(t)
	id, logPath := n.startLogged()
	n.writeLog(id, numbered(1, 10)...)
	n.restart(func() {
		n.writeLog(id, numbered(11, 20)...)
		testutil.Must(t, engine.Exit(id, 0))
	})
	n.wantState(id, exited)
	n.wantLog(logPath, numbered(1, 20))
	n.restart(func() {})
	n.wantLog(logPath, numbered(1, 20))
}

// Clients wait for Recover, so Watch asks a slow engine which containers are gone.
func TestRecordsOfContainersThatAreGone(t *testing.T) {
	n, engine := newFakeNode(t)
	pod, kept := n.createdInPod()
	gone := n.create(pod, withAttempt(n.config("sleep"), 1))
	n.reboot(func() {
		testutil.Must(t, engine.RemoveContainer(t.Context(), gone))
	})
	answer := engine.Inject("InspectContainer", dockertest.Fault{Object: gone, Block: true})
	testutil.Receive(t, testutil.Go(func() error { return n.Recover(t.Context()) }), "Recover waits for the engine")
	answer()
	n.watch()
	testutil.Until(t, "the record of the gone container is dropped", func() bool {
		record, err := n.store.Load(t.Context(), pod)
		testutil.Must(t, err)
		_, ok := record.Containers[kept]
		return ok && len(record.Containers) == 1
	})
}

// If another shim's log is a link to the engine's own file, it stays a link.
func TestRecoverLeavesLinksAlone(t *testing.T) {
	n, _ := newFakeNode(t)
	id, logPath := n.startLogged()
	n.restart(func() {
		n.writeLog(id, "a line")
		testutil.Must(t, os.Remove(logPath))
		testutil.Must(t, os.Symlink("/engine/log", logPath))
	})
	testutil.Fails(t, n.logs.Reopen(t.Context(), id), errdefs.IsFailedPrecondition, "a linked log is followed")
}

// The kubelet removes the log of an ended container before the container.
func TestRecoverDoesNotBringBackARemovedLog(t *testing.T) {
	n, engine := newFakeNode(t)
	id, logPath := n.startLogged()
	n.writeLog(id, "a line")
	n.exit(engine, id, 0)
	n.restart(func() {
		testutil.Must(t, os.Remove(logPath))
	})
	_, err := os.Stat(logPath)
	testutil.Assert(t, err != nil, "the log is back")
}

// A Stop whose container ended meanwhile does not remove the end from the record.
func TestEndStaysInTheRecord(t *testing.T) {
	n, engine := newFakeNode(t)
	pod, id := n.runningInPod()
	before := n.look(id)
	n.exit(engine, id, 7)
	testutil.Must(t, n.ended(t.Context(), before))
	kept, err := n.loadRecord(t.Context(), pod, id)
	testutil.Assert(t, err == nil && kept.End != nil && kept.End.ExitCode == 7, "the record is %+v, %v", kept, err)
}

// The exit hook saves an end before the cache shows it. A call of tidyRecord in between keeps the end.
func TestEndThatTheCacheDoesNotShowStaysInTheRecord(t *testing.T) {
	n, engine := newFakeNode(t)
	pod, id := n.runningInPod()
	before := *n.look(id)
	n.exit(engine, id, 7)
	n.cache.PutContainer(before)
	testutil.Must(t, n.tidyRecord(t.Context(), pod))
	kept, err := n.loadRecord(t.Context(), pod, id)
	testutil.Assert(t, err == nil && kept.End != nil && kept.End.ExitCode == 7, "the record is %+v, %v", kept, err)
}

// The end of a failed start stays in the record while the cache still shows the container as created.
func TestEndOfAFailedStartStaysInTheRecord(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	testutil.Must(t, n.changeRecord(t.Context(), pod, id, func(kept *checkpoint.Container) {
		kept.End = &checkpoint.End{ExitCode: 127, FinishedAt: time.Now()}
	}))
	testutil.Must(t, n.tidyRecord(t.Context(), pod))
	kept, err := n.loadRecord(t.Context(), pod, id)
	testutil.Assert(t, err == nil && kept.End != nil && kept.End.ExitCode == 127, "the record is %+v, %v", kept, err)
}

// A late position must not bring back the record of a removed container.
func TestPositionsOfRemovedContainers(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	testutil.Must(t, n.savePosition(t.Context(), pod, id, checkpoint.LogPosition{Inode: 1, Offset: 2}))
	kept, err := n.loadRecord(t.Context(), pod, id)
	testutil.Assert(t, err == nil && kept.LogPosition.Offset == 2 && len(kept.Config) != 0,
		"the record is %+v, %v", kept, err)
	testutil.Must(t, n.Remove(t.Context(), id))
	testutil.Must(t, n.savePosition(t.Context(), pod, id, checkpoint.LogPosition{Inode: 1, Offset: 3}))
	n.noRecords(pod)
	testutil.Check(t, n.savePosition(t.Context(), "feedbeef", id, checkpoint.LogPosition{Inode: 1}),
		"position in a pod that is gone")
}

// Forty logs were not complete when criadapter ended, and cannot be completed now. Recover does not wait for one log
// after the other.
func TestRecoverDoesNotWaitForLogsInTurn(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	const containers = 40
	n, engine := newFakeNode(t)
	pod := n.pod()
	var ids []string
	for i := range containers {
		id, _ := n.loggedAt(fmt.Sprintf("c/%d.log", i), pod, withAttempt(n.config("sleep"), uint32(i)))
		n.start(id)
		ids = append(ids, id)
	}
	disk := filepath.Dir(n.look(ids[0]).Meta.LogPath)
	began := time.Now()
	n.restart(func() {
		for _, id := range ids {
			n.writeLog(id, numbered(1, 500)...)
			testutil.Must(t, engine.Exit(id, 0))
		}
		testutil.Must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() {
			testutil.Check(t, unix.Unmount(disk, unix.MNT_DETACH))
		})
		for i := range containers { // the logs are there, and there is no room
			testutil.Must(t, os.WriteFile(filepath.Join(disk, fmt.Sprint(i, ".log")), nil, 0o640))
		}
		began = time.Now()
	})
	speed.Check(t, "the start, which must not wait for the logs in turn,", time.Since(began),
		containers/4*exitDrainTimeout)
	testutil.Must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "size=16m"))
	for _, id := range ids {
		logPath := n.look(id).Meta.LogPath
		testutil.Eventually(t, func() error { return n.hasLines(logPath, 500) })
		n.wantLog(logPath, numbered(1, 500))
	}
}
