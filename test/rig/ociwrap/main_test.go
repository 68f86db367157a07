package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestBecomesTheNextRunc builds the wrapper as "runc" and puts it before a script of that name.
func TestBecomesTheNextRunc(t *testing.T) {
	dir := t.TempDir()
	wrapper := filepath.Join(dir, "first", "runc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", wrapper, ".").CombinedOutput()
	testutil.Require(t, err == nil, "%v\n%s", err, out)
	write(t, filepath.Join(dir, "second", "runc"), "#!/bin/sh\necho \"real $*\"; cat \"$3\"\nexit 5\n", 0o755)
	config := filepath.Join(dir, "bundle", "config.json")
	write(t, config, `{"process":{"oomScoreAdj":-998}}`, 0o600)

	cmd := exec.CommandContext(t.Context(), wrapper, "create", "--bundle="+filepath.Dir(config), config)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(wrapper)+":"+filepath.Join(dir, "second")+":"+os.Getenv("PATH"))
	out, err = cmd.Output()
	testutil.Assert(t, cmd.ProcessState.ExitCode() == 5, "exit code %d (%v), want the real one's",
		cmd.ProcessState.ExitCode(), err)
	want := "real create --bundle=" + filepath.Dir(config) + " " + config + "\n" + `{"process":{"oomScoreAdj":0}}`
	testutil.Assert(t, string(out) == want, "got %s, want %s", out, want)
	info, err := os.Stat(config)
	testutil.Assert(t, err == nil && info.Mode() == 0o600, "mode of the bundle's file: %v, %v", info.Mode(), err)
}

func TestNoOtherRunc(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	path, err := nextOnPath("runc")
	testutil.Assert(t, err != nil, "found %s", path)
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testutil.Must(t, os.WriteFile(path, []byte(content), mode))
}
