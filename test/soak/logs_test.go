package main

import (
	"fmt"
	"os"
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
}

func newWriterNode(t *testing.T, name string) *writerNode {
	t.Helper()
	dir := t.TempDir()
	n := &writerNode{t: t, logs: newLogs(filepath.Join(dir, "kubelet"), filepath.Join(dir, "logs"))}
	told := history.Reported{ID: "c1", Name: "main", Running: true, Restarts: 2}
	n.pod = history.Pod{
		UID: "u1", Name: name, Phase: v1.PodRunning, Created: time.Now().Add(-time.Hour),
		Current: map[string]history.Reported{"main": told},
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
	n.write(filepath.Join(n.logs.kubelet, "pods", n.pod.UID, writtenFile), strconv.Itoa(count)+"\n")
	var text strings.Builder
	for _, number := range numbers {
		fmt.Fprintf(&text, "2026-01-02T03:04:05.000000006Z stdout F line %08d %085d\n", number, 0)
	}
	n.write(filepath.Join(n.logs.pods, "soak_"+n.pod.Name+"_u1", "main", "2.log"), text.String())
}

// differs says whether a comparison finds a difference. engineEnded says whether the engine ended before it.
func (n *writerNode) differs(engineEnded bool) bool {
	n.t.Helper()
	found := n.logs.compare([]history.Pod{n.pod}, func(time.Time) bool { return engineEnded })
	return len(found) > 0
}

// A writer's log has each line once. Lines that an engine lost when it ended are excused once.
func TestLogsCompare(t *testing.T) {
	n := newWriterNode(t, "writer-1")
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
