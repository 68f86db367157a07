package ociexec

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestTerminalEnviron(t *testing.T) {
	tests := []struct {
		name          string
		own, terminal bool
		environ, want string // want is empty for a command that needs the engine
	}{
		{"as the container", false, false, "PATH=/bin HOSTNAME=h A=1", "PATH=/bin HOSTNAME=h A=1"},
		{"both with a terminal", true, true, "PATH=/bin HOSTNAME=h TERM=xterm", "PATH=/bin HOSTNAME=h TERM=xterm"},
		{"a terminal", false, true, "PATH=/bin HOSTNAME=h A=1", "PATH=/bin HOSTNAME=h TERM=xterm A=1"},
		{"TERM of the container", false, true, "PATH=/bin HOSTNAME=h TERM=vt100", "PATH=/bin HOSTNAME=h TERM=vt100"},
		{"no terminal", true, false, "PATH=/bin HOSTNAME=h TERM=vt100", "PATH=/bin HOSTNAME=h TERM=vt100"},
		{"perhaps the engine's TERM", true, false, "PATH=/bin HOSTNAME=h TERM=xterm", ""},
	}
	for _, tt := range tests {
		var list []any
		for _, variable := range strings.Fields(tt.environ) {
			list = append(list, variable)
		}
		got, err := terminalEnviron(object{"env": list, "terminal": tt.own}, tt.terminal)
		testutil.Assert(t, strings.Join(got, " ") == tt.want && (err == nil) == (tt.want != ""),
			"%s: %q, %v", tt.name, got, err)
	}
}

// The OCI process object of a command is the container's own, with the request's fields and the shim's limits. Fields
// that this program does not know stay, and large numbers keep each digit.
func TestSpecKeepsTheContainersProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	testutil.Must(t, os.WriteFile(path, []byte(`{"process": {
		"args": ["sleep"], "cwd": "/w", "env": ["PATH=/bin", "HOSTNAME=h"], "consoleSize": {"height": 1, "width": 2},
		"user": {"uid": 1000, "additionalGids": [5]}, "newer": {"field": 18446744073709551615}, "noNewPrivileges": true,
		"rlimits": [{"type": "RLIMIT_CORE", "hard": 18446744073709551615, "soft": 1}]}}`), 0o600))
	process, err := readProcess(path)
	testutil.Must(t, err)
	c := &Container{process: process, limits: []limit{{"RLIMIT_CORE", 7, 7}, {"RLIMIT_CPU", math.MaxUint64, 9}}}
	text, err := c.spec(Command{Args: []string{"true"}})
	testutil.Must(t, err)
	want := `{"args":["true"],"cwd":"/w","env":["PATH=/bin","HOSTNAME=h"],"newer":{"field":18446744073709551615},` +
		`"noNewPrivileges":true,"rlimits":[{"hard":18446744073709551615,"soft":1,"type":"RLIMIT_CORE"},` +
		`{"type":"RLIMIT_CPU","hard":18446744073709551615,"soft":9}],"terminal":false,` +
		`"user":{"additionalGids":[5],"uid":1000}}`
	testutil.Assert(t, string(text) == want, "%s, want %s", text, want)
	again, err := c.spec(Command{Args: []string{"true"}})
	testutil.Assert(t, err == nil && string(again) == want, "the second command: %s, %v", again, err)
}

func TestReadLimits(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "limits"), []byte(
		"Limit                     Soft Limit           Hard Limit           Units     \n"+
			"Max core file size        0                    unlimited            bytes     \n"+
			"Max nice priority         0                    5                    \n"), 0o600))
	got, err := readLimits(dir)
	want := map[string]limit{
		"RLIMIT_CORE": {"RLIMIT_CORE", math.MaxUint64, 0},
		"RLIMIT_NICE": {"RLIMIT_NICE", 5, 0},
	}
	testutil.Assert(t, err == nil && reflect.DeepEqual(got, want), "%v, %v", got, err)
}

// An error that is not about the command's program has no exit code, so the engine runs the command instead.
func TestShellCode(t *testing.T) {
	for message, want := range map[string]int{
		`exec failed: unable to start container process: exec: "x": executable file not found in $PATH`:        127,
		`exec failed: unable to start container process: exec: "/x": stat /x: no such file or directory`:       127,
		`exec failed: unable to start container process: exec: "/etc": is a directory`:                         126,
		`exec failed: unable to start container process: exec: "/etc/passwd": permission denied`:               126,
		`exec failed: unable to start container process: exec /bad: exec format error`:                         126,
		`exec failed: unable to start container process: open /proc/self/fd: no such file or directory`:        0,
		`exec failed: unable to start container process: error setting rlimit type 7: operation not permitted`: 0,
		`exec failed: unable to start container process: fork/exec /proc/self/exe: permission denied`:          0,
		`cannot exec in a stopped container`: 0,
	} {
		testutil.Equal(t, shellCode(message), want, "%s", message)
	}
}

func TestLastError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.json")
	lines := []map[string]string{
		{"level": "error", "msg": "first"}, {"level": "error", "msg": "last"}, {"level": "info", "msg": "more"},
	}
	var text []byte
	for _, line := range lines {
		one, err := json.Marshal(line)
		testutil.Must(t, err)
		text = append(append(text, one...), '\n')
	}
	testutil.Must(t, os.WriteFile(path, text, 0o600))
	got := lastError(path)
	testutil.Assert(t, got == "last", "%q", got)
}
