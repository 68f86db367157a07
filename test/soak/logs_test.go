package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/soak/history"
)

// writerNode has the files of one writer.
type writerNode struct {
	t    *testing.T
	logs *logs
	pod  history.Pod
	// containers are the attempts on the engine.
	containers []history.Container
}

func newWriterNode(t *testing.T, name string) *writerNode {
	t.Helper()
	dir := t.TempDir()
	n := &writerNode{t: t, logs: newLogs(filepath.Join(dir, "kubelet"), filepath.Join(dir, "logs"))}
	reported := history.Reported{ID: "c1", Name: "main", Running: true, Restarts: 2}
	n.pod = history.Pod{
		UID: "u1", Name: name, Phase: v1.PodRunning, Created: time.Now().Add(-time.Hour),
		Current: map[string]history.Reported{"main": reported},
	}
	return n
}

func (n *writerNode) write(path string, text string) {
	n.t.Helper()
	testutil.Must(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testutil.Must(n.t, os.WriteFile(path, []byte(text), 0o644))
}

// wrote sets the writer's count, and the numbers of the lines in its log.
func (n *writerNode) wrote(count int, numbers ...int) {
	n.t.Helper()
	n.writeCount(writtenFile, count)
	n.writeLog(2, numbers...)
}

func (n *writerNode) writeCount(file string, count int) {
	n.t.Helper()
	n.write(filepath.Join(n.logs.kubelet, "pods", n.pod.UID, file), strconv.Itoa(count)+"\n")
}

func (n *writerNode) writeLog(attempt int, numbers ...int) {
	n.t.Helper()
	var text strings.Builder
	for _, number := range numbers {
		fmt.Fprintf(&text, "2026-01-02T03:04:05.000000006Z stdout F line %08d %085d\n", number, 0)
	}
	n.write(filepath.Join(n.logs.pods, "soak_"+n.pod.Name+"_u1", "main", strconv.Itoa(attempt)+".log"), text.String())
}

// differs says whether a comparison finds a difference. engineEnded says whether the engine ended before it.
func (n *writerNode) differs(engineEnded bool) bool {
	n.t.Helper()
	found := n.logs.compare([]history.Pod{n.pod}, n.containers, func(time.Time) bool { return engineEnded })
	return len(found) > 0
}

// A writer's log has each line once. Lines that an engine lost when it ended are excused once.
func TestLogsCompare(t *testing.T) {
	n := newWriterNode(t, "writer-1")
	n.wrote(0, 1, 2)
	testutil.Assert(t, n.differs(false), "the writer has recorded no lines, and nothing differs")
	n.wrote(3, 1, 2, 3, 4)
	testutil.Assert(t, !n.differs(false), "a whole log differs")
	n.wrote(5, 1, 2, 3, 4)
	testutil.Assert(t, n.differs(false), "a line is missing, and nothing differs")
	n.wrote(6, 1, 2, 3, 6)
	testutil.Assert(t, !n.differs(true), "lines that the engine lost differ")
	lines, lost := n.logs.sums()
	testutil.Assert(t, lines == 4 && lost == 2, "%d lines, %d lost", lines, lost)
	n.wrote(7, 1, 2, 3, 6, 7)
	testutil.Assert(t, !n.differs(false), "lines that the engine lost earlier differ")
	n.wrote(9, 1, 2, 3, 6, 7, 9)
	testutil.Assert(t, n.differs(false), "one more line is missing, and nothing differs")
	n.wrote(9, 1, 2, 3, 6, 7, 8, 9, 9)
	testutil.Assert(t, n.differs(true), "a line is there twice, and nothing differs")
	n.wrote(9, 1, 2, 3, 6, 7, 9, 8)
	testutil.Assert(t, n.differs(true), "lines are in another order, and nothing differs")
}

// The log of a writer before its restart has each line once, too. It is compared until it is whole.
func TestLogsOfRestartedWriters(t *testing.T) {
	for name, test := range map[string]struct {
		count         int
		numbers       []int
		notStarted    bool
		lost, differs bool
	}{
		"whole, with lines after the last count": {count: 3, numbers: []int{1, 2, 3, 4}},
		"a line is missing":                      {count: 5, numbers: []int{1, 2, 3, 4}, differs: true},
		"the engine lost a line":                 {count: 5, numbers: []int{1, 2, 3, 4}, lost: true},
		"a line is there twice":                  {count: 2, numbers: []int{1, 2, 2}, lost: true, differs: true},
		"lines are in another order":             {count: 3, numbers: []int{2, 1, 3}, lost: true, differs: true},
		"no log":                                 {count: 2, differs: true},
		"no log, and nothing was counted":        {},
		"no log, because it was not started":     {count: 2, notStarted: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWriterNode(t, "writer-1")
			before := history.Container{ID: "c0", PodUID: "u1", Name: "main", Attempt: 1}
			if !test.notStarted {
				before.Started = time.Now()
			}
			n.containers = []history.Container{before}
			n.wrote(2, 1, 2)
			n.writeCount(previousFile, test.count)
			if test.numbers != nil {
				n.writeLog(1, test.numbers...)
			}
			testutil.Equal(t, n.differs(test.lost), test.differs, "a difference")
		})
	}
}

// Each start of a writer keeps the count of the container before, even if that container was too short for a count.
func TestCountOfThePreviousWriter(t *testing.T) {
	n := newWriterNode(t, "writer-1")
	dir := filepath.Dir(filepath.Join(n.logs.kubelet, "pods", n.pod.UID, writtenFile))
	n.writeCount(writtenFile, 7)
	for _, want := range []int{7, 0, 0} {
		start := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(keepCount, "/count/", dir+"/"))
		testutil.Must(t, start.Run())
		testutil.Equal(t, n.logs.counted(n.pod.UID, previousFile), want, "the count of the previous container")
	}
}

// Lines that a log had before its container restarted must stay in the log, even if the disk was too full for the
// writer's count.
func TestLogsSeenBeforeARestart(t *testing.T) {
	n := newWriterNode(t, "writer-1")
	n.wrote(4, 1, 2, 3, 4)
	testutil.Assert(t, !n.differs(false), "a whole log differs")
	n.containers = []history.Container{{ID: "c1", PodUID: "u1", Name: "main", Attempt: 2, Started: time.Now()}}
	n.pod.Current["main"] = history.Reported{ID: "c2", Name: "main", Running: true, Restarts: 3}
	n.writeCount(writtenFile, 2)
	n.writeCount(previousFile, 0)
	n.writeLog(3, 1, 2)
	n.writeLog(2, 1, 2, 3)
	testutil.Assert(t, n.differs(false), "a line of the first log is gone, and nothing differs")
	n.writeLog(2, 1, 2, 3, 4)
	testutil.Assert(t, !n.differs(false), "two whole logs differ")
}

// A Job's log has all lines. Logs of deleted pods are not compared.
func TestLogsOfJobs(t *testing.T) {
	n := newWriterNode(t, "writing-7-abcde")
	n.pod.Phase = v1.PodSucceeded
	n.wrote(0, 1, 2, 3)
	testutil.Assert(t, n.differs(false), "most lines are missing, and nothing differs")
	n.pod.Deleting = time.Now()
	testutil.Assert(t, !n.differs(false), "a pod that is deleted is compared")
}
