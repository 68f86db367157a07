package machine

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// emulated answers a command with lines.
func emulated(t *testing.T, lines ...string) *qmp {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() {
		defer theirs.Close()
		buffer := make([]byte, 1<<10)
		if _, err := theirs.Read(buffer); err != nil {
			return
		}
		for _, line := range lines {
			if _, err := theirs.Write([]byte(line + "\n")); err != nil {
				return
			}
		}
	}()
	return &qmp{conn: ours, decoder: json.NewDecoder(ours)}
}

func TestMonitorAnswers(t *testing.T) {
	const greeting, event = `{"QMP": {"version": {}}}`, `{"event": "STOP"}`
	testutil.Must(t, emulated(t, greeting, event, `{"return": {}}`).do("stop", nil))
	err := emulated(t, event, `{"error": {"class": "GenericError", "desc": "no such file"}}`).do("migrate", nil)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no such file"), "refused: %v", err)
	err = emulated(t, event).do("quit", nil)
	testutil.Assert(t, err != nil, "an end without an answer is not an error")
}

func TestMonitorWaitsForTheMemory(t *testing.T) {
	const setup = `{"event": "MIGRATION", "data": {"status": "setup"}}`
	for status, good := range map[string]bool{"completed": true, "failed": false} {
		q := emulated(t, `{"return": {}}`, setup, `{"event": "STOP"}`,
			`{"event": "MIGRATION", "data": {"status": "`+status+`"}}`)
		testutil.Must(t, q.do("migrate", nil))
		err := q.saved()
		testutil.Assert(t, (err == nil) == good, "%s: %v", status, err)
	}
}
