package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/testutil"
)

// runCommand runs a command of the program to its end, and returns its output and its exit code.
func runCommand(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	raw, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(raw), cmd.ProcessState.ExitCode()
}

// A server whose engine is away answers, and reports that it is not ready.
func TestStatusOfAServer(t *testing.T) {
	dir := t.TempDir()
	endpoint := "--container-runtime-endpoint=unix://" + filepath.Join(dir, "cri.sock")
	output, code := runCommand(t, "status", endpoint)
	testutil.Assert(t, code == 2 && strings.Contains(output, "there is no socket of criadapter at "+dir),
		"without a server: code %d\n%s", code, output)
	p := startProgram(t, filepath.Join(dir, "cri.sock"), "exec $0 "+endpoint+plainFlags(dir), nil)
	output, code = runCommand(t, "status", endpoint)
	for _, want := range []string{"criadapter unknown on unix://" + dir, "not ready: EngineUnavailable",
		"does not follow the engine", "slow calls      none"} {
		testutil.Assert(t, code == 1 && strings.Contains(output, want), "code %d, no %q in:\n%s", code, want, output)
	}
	output, code = runCommand(t, "status", endpoint, "-o", "json")
	var answer status.Answer
	err := json.Unmarshal([]byte(output), &answer)
	testutil.Require(t, err == nil && code == 1, "code %d, %v:\n%s", code, err, output)
	testutil.Assert(t, answer.Report != nil && answer.Report.PID == p.Process.Pid && !answer.Report.Started.IsZero(),
		"got %+v", answer.Report)
	output, code = runCommand(t, "check", "-o", "json", endpoint, "--docker-endpoint=unix://"+dir+"/no-engine.sock",
		"--network-plugin=bridge")
	testutil.Assert(t, code == 1 && strings.Contains(output, "criadapter unknown answers on "+dir),
		"check: code %d\n%s", code, output)
	output, code = runCommand(t, "check", "--log-level=loud")
	testutil.Assert(t, code == 2 && strings.Contains(output, "--log-level"),
		"check with a bad flag: code %d\n%s", code, output)
}

func TestConfigOfTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	testutil.Must(t, os.WriteFile(path, []byte("log-level: debug\ncni-confdir: /x\n"), 0o600))
	want := path + `:2:1: unknown setting "cni-confdir"; did you mean "cni-conf-dir"?`
	for _, args := range [][]string{{"config", "validate", path}, {"config", "print", "--config", path},
		{"--config", path}} {
		output, code := runCommand(t, args...)
		testutil.Assert(t, code == 1 && strings.Contains(output, want), "%q: code %d\n%s", args, code, output)
	}
	testutil.Must(t, os.WriteFile(path, []byte("log-level: debug\n"), 0o600))
	if output, code := runCommand(t, "config", "validate", path); code != 0 {
		t.Errorf("code %d\n%s", code, output)
	}
	output, code := runCommand(t, "config", "print", "--config", path, "--log-format=json")
	for _, want := range []string{"log-level ", path + ":1\n", "flag --log-format\n", "default\n"} {
		testutil.Assert(t, code == 0 && strings.Contains(output, want), "code %d, no %q in:\n%s", code, want, output)
	}
	// The output of config print is a valid configuration file.
	output, _ = runCommand(t, "config", "print", "--config", path, "-o", "yaml")
	testutil.Must(t, os.WriteFile(path, []byte(output), 0o600))
	output, code = runCommand(t, "config", "validate", path)
	testutil.Assert(t, code == 0, "code %d\n%s", code, output)
}
