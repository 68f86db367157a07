package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// TestLinkedLogThroughKillsAndRotations has the engine's own file as the only log. Nothing is lost however long
// criadapter is dead. The kubelet's rotation leaves a copy.
func TestLinkedLogThroughKillsAndRotations(t *testing.T) {
	const rounds, burst = 3, 1000
	w := newLinkedWriter(t, burst)
	for i := range rounds {
		w.server.Kill()
		w.signal(fmt.Sprint(i))
		w.await(fmt.Sprintf("done%d", i))
		w.restart()
		w.awaitLinked(burst)
		testutil.Assert(t, w.rotate(i), "rotation %d failed", i)
	}
	w.signal("end")
	w.awaitExit()
	info, err := os.Lstat(w.logPath)
	testutil.Assert(t, err == nil && info.Mode()&os.ModeSymlink != 0, "the log is a %v, %v", info.Mode(), err)
	number := w.linesInOrder()
	testutil.Assert(t, number == rounds*burst, "%d lines, want %d", number, rounds*burst)
}

// newLinkedWriter makes a container with a linked log. It writes three bursts of lines, each after the signal with its
// number.
func newLinkedWriter(t *testing.T, burst int) *writer {
	t.Helper()
	env := ownEngine(t)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{"--container-log-mode=symlink"}})
	return newWriter(t, env, server, fmt.Sprintf(
		`for i in 0 1 2; do await $i; lines $((i * %d + 1)) $((i * %d + %d)); touch /control/done$i; done; await end`,
		burst, burst, burst))
}

// awaitLinked waits until the engine's file that the log links to has this number of lines.
func (w *writer) awaitLinked(want int) {
	w.t.Helper()
	testutil.Eventually(w.t, func() error {
		if n := len(jsonContents(w.t, w.logPath)); n != want {
			return fmt.Errorf("%d lines in the engine's file, want %d", n, want)
		}
		return nil
	})
}

// linesInOrder requires that the log and its rotated files have all lines in order. It returns their number.
func (w *writer) linesInOrder() (number int) {
	w.t.Helper()
	for _, path := range rotatedLogs(w.t, w.logPath) {
		for _, content := range jsonContents(w.t, path) {
			number++
			testutil.Require(w.t, lineNumber(w.t, content) == number, "line %d is %.40q", number, content)
		}
	}
	return number
}

// jsonContents returns the contents of the lines of Docker's json-file.
func jsonContents(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	testutil.Must(t, err)
	var all []string
	for line := range strings.Lines(string(text)) {
		var record struct{ Log string }
		err := json.Unmarshal([]byte(line), &record)
		testutil.Require(t, err == nil, "%q: %v", line, err)
		all = append(all, strings.TrimSuffix(record.Log, "\n"))
	}
	return all
}

// TestLinkedLogKilledInARotation makes the state after a kill in a rotation: the engine's file is copied but not yet
// emptied, and the kubelet has renamed the copy back. The log is shown once, and the next rotation copies it once.
func TestLinkedLogKilledInARotation(t *testing.T) {
	const burst = 1000
	w := newLinkedWriter(t, burst)
	w.signal("0")
	w.await("done0")
	w.awaitLinked(burst)
	w.server.Kill()
	text, err := os.ReadFile(w.logPath)
	if err == nil {
		err = errors.Join(os.WriteFile(w.logPath+".copy", text, 0o640), os.Rename(w.logPath+".copy", w.logPath))
	}
	testutil.Must(t, err)
	w.signal("1")
	w.await("done1")
	w.restart()
	w.awaitLinked(2 * burst)
	testutil.Assert(t, w.rotate(0), "the rotation failed")
	w.signal("2")
	w.await("done2")
	w.awaitLinked(burst)
	w.signal("end")
	w.awaitExit()
	number := w.linesInOrder()
	fmt.Printf("logs: a linked log killed in its rotation: written %d read %d\n", 3*burst, number)
	testutil.Assert(t, number == 3*burst, "%d lines, want %d", number, 3*burst)
}
