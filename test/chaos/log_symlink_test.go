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
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestLinkedLogThroughKillsAndRotations has the engine's own file as the only log. Nothing is lost however long
// criadapter is dead. The kubelet's rotation leaves a copy.
func TestLinkedLogThroughKillsAndRotations(t *testing.T) {
	const rounds, burst = 3, 1000
	env := rigenv.Require(t)
	newEngine(t, &env, true)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{"--container-log-mode=symlink"}})
	w := newWriter(t, env, server, fmt.Sprintf(
		`for i in 0 1 2; do await $i; lines $((i * %d + 1)) $((i * %d + %d)); touch /control/done$i; done; await end`,
		burst, burst, burst))
	for i := range rounds {
		w.server.Kill()
		w.signal(fmt.Sprint(i))
		w.await(fmt.Sprintf("done%d", i))
		w.restart()
		testutil.Eventually(t, func() error {
			if n := len(jsonContents(t, w.logPath)); n != burst {
				return fmt.Errorf("%d lines in the engine's file", n)
			}
			return nil
		})
		testutil.Assert(t, w.rotate(i), "rotation %d failed", i)
	}
	w.signal("end")
	w.awaitExit()
	info, err := os.Lstat(w.logPath)
	testutil.Assert(t, err == nil && info.Mode()&os.ModeSymlink != 0, "the log is a %v, %v", info.Mode(), err)
	number := 0
	for _, path := range rotatedLogs(t, w.logPath) {
		for _, content := range jsonContents(t, path) {
			if number++; lineNumber(t, content) != number {
				t.Fatalf("line %d is %.40q", number, content)
			}
		}
	}
	testutil.Assert(t, number == rounds*burst, "%d lines, want %d", number, rounds*burst)
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
	env := rigenv.Require(t)
	newEngine(t, &env, true)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{"--container-log-mode=symlink"}})
	w := newWriter(t, env, server, fmt.Sprintf(
		`for i in 0 1 2; do await $i; lines $((i * %d + 1)) $((i * %d + %d)); touch /control/done$i; done; await end`,
		burst, burst, burst))
	awaitLines := func(want int) {
		t.Helper()
		testutil.Eventually(t, func() error {
			if n := len(jsonContents(t, w.logPath)); n != want {
				return fmt.Errorf("%d lines in the log, want %d", n, want)
			}
			return nil
		})
	}
	w.signal("0")
	w.await("done0")
	awaitLines(burst)
	w.server.Kill()
	text, err := os.ReadFile(w.logPath)
	if err == nil {
		err = errors.Join(os.WriteFile(w.logPath+".copy", text, 0o640), os.Rename(w.logPath+".copy", w.logPath))
	}
	testutil.Must(t, err)
	w.signal("1")
	w.await("done1")
	w.restart()
	awaitLines(2 * burst)
	testutil.Assert(t, w.rotate(0), "the rotation failed")
	w.signal("2")
	w.await("done2")
	awaitLines(burst)
	w.signal("end")
	w.awaitExit()
	number := 0
	for _, path := range rotatedLogs(t, w.logPath) {
		for _, content := range jsonContents(t, path) {
			if number++; lineNumber(t, content) != number {
				t.Fatalf("line %d is %.40q", number, content)
			}
		}
	}
	fmt.Printf("logs: a linked log killed in its rotation: written %d read %d\n", 3*burst, number)
	testutil.Assert(t, number == 3*burst, "%d lines, want %d", number, 3*burst)
}
