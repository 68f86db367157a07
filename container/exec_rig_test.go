package container

import (
	"strings"
	"testing"
	"time"
)

// With the label exitCode the engine's events say that each command succeeded, and with execID they name another command.
func TestRigExecSyncWithForgedEvents(t *testing.T) {
	n := newRigNode(t)
	config := n.config("sleep", "1000")
	forge(config)
	id := n.create(n.pod(), config)
	n.start(id)
	for range 5 {
		got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 3"}})
		if err != nil || got.ExitCode != 3 {
			t.Errorf("ExecSync: %v, %v", got, err)
		}
	}
}

func TestRigExecSyncOfAMissingProgram(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	for range 3 {
		begun := time.Now()
		got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"/nosuch"}})
		took := time.Since(begun)
		t.Log(took)
		if err != nil || got.ExitCode != 126 && got.ExitCode != 127 || !strings.Contains(string(got.Stdout), "no such file") {
			t.Errorf("ExecSync: %v, %v", got, err)
		}
		begun = time.Now()
		_, err = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"true"}})
		t.Log("true", time.Since(begun), err)
	}
}
