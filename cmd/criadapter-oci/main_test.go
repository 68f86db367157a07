package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// asProgram is the environment variable that makes the test binary run main. Unless its value is "1", it names a pipe
// to wait for.
const asProgram = "CRIADAPTER_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if how := os.Getenv(asProgram); how != "" {
		if how != "1" {
			_, _ = os.ReadFile(how) // waits for its writer
		}
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var someID = strings.Repeat("0a", 32)

// place has a directory of notes, a bundle, and a real runtime that prints its arguments.
type place struct {
	*testing.T
	notes       ocinote.Dir
	bundle, log string
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{T: t, notes: ocinote.Dir(t.TempDir()), bundle: t.TempDir(), log: filepath.Join(t.TempDir(), "log.json")}
	runtime := filepath.Join(t.TempDir(), "real")
	p.program(runtime, "#!/bin/sh\necho \"$@\"\nexit 3\n")
	p.write(filepath.Join(p.bundle, "config.json"), `{"hostname": "engine", "linux": {"cgroupsPath": "/kubepods/x"}}`)
	p.write(filepath.Join(p.bundle, "process.json"), `{"user": {"uid": 1, "additionalGids": [1]}}`)
	testutil.Must(t, p.notes.SaveRuntime(ocinote.Runtime{Path: runtime, Args: []string{"--real"}}))
	return p
}

func (p place) write(path, text string) {
	p.Helper()
	testutil.Must(p, os.WriteFile(path, []byte(text), 0o600))
}

// program makes a file that can be run.
func (p place) program(path, text string) {
	p.Helper()
	testutil.Must(p, os.WriteFile(path, []byte(text), 0o755))
}

func (p place) read(name string) string {
	p.Helper()
	return testutil.ReadFile(p, filepath.Join(p.bundle, name))
}

// run runs the program and returns the output of the real runtime, or the error of the program.
func (p place) run(args ...string) (told string, code int) {
	p.Helper()
	self, err := os.Executable()
	testutil.Must(p, err)
	cmd := exec.Command(self, append([]string{"--criadapter-notes", string(p.notes), "--log", p.log}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	output, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(output)), cmd.ProcessState.ExitCode()
}

// TestVersion checks that the program prints its own version only if asked for nothing else.
func TestVersion(t *testing.T) {
	p := newPlace(t)
	self, err := os.Executable()
	testutil.Must(t, err)
	cmd := exec.Command(self, versionFlag)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	output, err := cmd.CombinedOutput()
	testutil.Must(t, err)
	testutil.Equal(t, string(output), "criadapter-oci unknown\n", "the output of "+versionFlag)
	for _, args := range [][]string{{"--version"}, {versionFlag, "--version"}} {
		output, code := p.run(args...)
		testutil.Assert(t, code == 3 && strings.HasSuffix(output, "--version"),
			"%q: the real runtime printed %q with exit code %d", args, output, code)
	}
}

func TestBecomesTheRealRuntime(t *testing.T) {
	p := newPlace(t)
	testutil.Must(t,
		p.notes.Save(someID, ocinote.Note{Hostname: "web-0", Process: ocinote.Process{Groups: &[]uint32{5}}}))
	process := filepath.Join(p.bundle, "process.json")
	for _, args := range [][]string{
		{"create", "--bundle", p.bundle, someID}, {"exec", "--process", process, someID},
		{"delete", "--force", someID}, {"kill", "unknown", "9"}, {"features"}, {"--version"},
		{"--log-level", "debug", "state", someID},
	} {
		told, code := p.run(args...)
		want := fmt.Sprintf("--real --log %s %s", p.log, strings.Join(args, " "))
		testutil.Assert(t, told == want && code == 3, "%s: got %q and %d, want %q and 3", args, told, code, want)
	}
	got := p.read("config.json")
	testutil.Assert(t, strings.Contains(got, `"hostname":"web-0"`) && strings.Contains(got, `"additionalGids":[0,5]`),
		"the configuration is %s", got)
	if got, want := p.read("process.json"), `{"user":{"additionalGids":[0,5],"uid":1}}`; got != want {
		t.Errorf("the process is %s, want %s", got, want)
	}
}

// Docker passes --systemd-cgroup only to runtimes that it knows. The program adds the flag if the cgroup's path is
// systemd's.
func TestCgroupsOfSystemd(t *testing.T) {
	p := newPlace(t)
	testutil.Must(t, p.notes.Save(someID, ocinote.Note{}))
	for path, want := range map[string]bool{
		"kubepods-besteffort-podx.slice:docker:0a": true, ":docker:0a": true, "/kubepods/podx/0a": false,
		"/a:b/c": false, "": false,
	} {
		p.write(filepath.Join(p.bundle, "config.json"), fmt.Sprintf(`{"linux": {"cgroupsPath": %q}}`, path))
		told, _ := p.run("create", "--bundle", p.bundle, someID)
		got := strings.Contains(told, "--systemd-cgroup")
		testutil.Assert(t, got == want, "%s: %q, want --systemd-cgroup: %t", path, told, want)
		told, _ = p.run("--systemd-cgroup", "create", "--bundle", p.bundle, someID)
		testutil.Assert(t, strings.Count(told, "--systemd-cgroup") == 1,
			"%s: the engine's own flag becomes %q", path, told)
	}
}

// The program fails closed, and writes the reason where the engine looks for it.
func TestRefuses(t *testing.T) {
	p := newPlace(t)
	process := filepath.Join(p.bundle, "process.json")
	create, command := []string{"create", "--bundle", p.bundle, someID}, []string{"exec", "--process", process, someID}
	damage := func(text string) func() {
		return func() { p.write(filepath.Join(string(p.notes), someID), text) }
	}
	for name, c := range map[string]struct {
		before func()
		args   []string
		want   string
	}{
		"no note":                {func() {}, create, "has no note of criadapter"},
		"a command":              {func() {}, command, "has no note of criadapter"},
		"no id":                  {func() {}, []string{"create", "--bundle", p.bundle, "../x"}, "not a container id"},
		"a damaged note":         {damage(`{"version":1,"sha256":"00"}` + "\n{}"), create, "checksum"},
		"a later version's note": {damage(`{"version":2}` + "\n{}"), create, "one release"},
		"no bundle":              {damage(""), []string{"create", "--bundle", "/nonesuch", someID}, "no header"},
		"an unknown command": {func() {}, []string{"make", someID},
			`"make" is not a known command of OCI runtimes`},
		"an unknown option": {func() {}, append([]string{"--colour", "red"}, create...),
			`"red" is not a known command`},
		"an empty note": {damage(""), command, "no header"},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.Must(t, p.notes.Remove(someID))
			_ = os.Remove(p.log)
			c.before()
			config, process := p.read("config.json"), p.read("process.json")
			told, code := p.run(c.args...)
			wantCode := 1
			if slices.Contains(c.args, "exec") {
				wantCode = 255 // as runc's
			}
			testutil.Assert(t, code == wantCode && strings.Contains(told, c.want),
				"got %q and %d, want %q and %d", told, code, c.want, wantCode)
			text, err := os.ReadFile(p.log)
			var line struct{ Level, Msg string }
			testutil.Assert(t, err == nil && json.Unmarshal(text, &line) == nil && line.Level == "error" &&
				line.Msg == told, "the engine's log has %s, %v", text, err)
			testutil.Assert(t, p.read("config.json") == config && p.read("process.json") == process,
				"something was edited")
		})
	}
}

// A container stays with its runtime when the engine's default changes.
func TestContainerKeepsItsRuntime(t *testing.T) {
	p := newPlace(t)
	own := filepath.Join(t.TempDir(), "own")
	p.program(own, "#!/bin/sh\necho own \"$@\"\n")
	testutil.Must(t, p.notes.Save(someID, ocinote.Note{Runtime: ocinote.Runtime{Path: own, Args: []string{"--flag"}}}))
	for _, args := range [][]string{{"kill", someID, "9"}, {"delete", someID},
		{"create", "--bundle", p.bundle, someID}} {
		told, code := p.run(args...)
		testutil.Assert(t, strings.HasPrefix(told, "own --flag --log") && code == 0,
			"%s: got %q and %d", args, told, code)
	}
	told, _ := p.run("kill", strings.Repeat("0b", 32), "9")
	testutil.Assert(t, strings.HasPrefix(told, "--real"), "another container: %q", told)
}

// An upgrade replaces the program while it runs. The program must not take its new version on PATH for the real
// runtime.
func TestSuccessorIsNotTheRuntime(t *testing.T) {
	p := newPlace(t)
	runtime, err := p.notes.LoadRuntime()
	testutil.Must(t, err)
	p.notes = ocinote.Dir(filepath.Join(t.TempDir(), "none"))
	program := filepath.Join(filepath.Dir(p.installed()), ociName)
	ours, linked, real := filepath.Join(filepath.Dir(program), runcDir), t.TempDir(), t.TempDir()
	for dir, target := range map[string]string{linked: program, real: runtime.Path} {
		testutil.Must(t, os.Symlink(target, filepath.Join(dir, "runc")))
	}
	// The program waits for a named pipe. Meanwhile its file is replaced.
	fifo := filepath.Join(t.TempDir(), "replaced")
	testutil.Must(t, syscall.Mkfifo(fifo, 0o600))
	cmd := exec.Command(program, "--criadapter-notes", string(p.notes), "delete", someID)
	cmd.Env = append(os.Environ(), asProgram+"="+fifo, "PATH="+ours+":"+linked+":"+real)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	testutil.Must(t, cmd.Start())
	replaced, err := os.OpenFile(fifo, os.O_WRONLY, 0) // the program runs
	testutil.Must(t, err)
	p.program(program+".new", "#!/bin/sh\necho the successor\n")
	testutil.Must(t, errors.Join(os.Rename(program+".new", program), replaced.Close()))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 || strings.TrimSpace(output.String()) != "delete "+someID {
		t.Errorf("%v: %s", err, output.String())
	}
}

// A container whose runtime has moved can still be stopped and removed. No container is created with a runtime that has
// moved.
func TestRuntimeThatHasMoved(t *testing.T) {
	p := newPlace(t)
	runtime, err := p.notes.LoadRuntime()
	testutil.Must(t, err)
	testutil.Must(t,
		p.notes.Save(someID, ocinote.Note{Runtime: ocinote.Runtime{Path: "/nonesuch/" + filepath.Base(runtime.Path)}}))
	t.Setenv("PATH", filepath.Dir(runtime.Path)+":"+os.Getenv("PATH"))
	told, code := p.run("kill", someID, "9")
	testutil.Assert(t, strings.HasSuffix(told, "kill "+someID+" 9") && code == 3, "got %q and %d", told, code)
	told, code = p.run("create", "--bundle", p.bundle, someID)
	testutil.Assert(t, strings.Contains(told, "/nonesuch/") && code == 1, "another one: %q and %d", told, code)
}

// Containers can be killed and removed before criadapter has recorded a runtime.
func TestWithoutARuntimeOfRecord(t *testing.T) {
	p := newPlace(t)
	runtime, err := p.notes.LoadRuntime()
	testutil.Must(t, err)
	self, err := os.Executable()
	testutil.Must(t, err)
	ours, real := t.TempDir(), t.TempDir()
	for name, target := range map[string]string{filepath.Join(ours, "runc"): self,
		filepath.Join(real, "runc"): runtime.Path} {
		testutil.Must(t, os.Symlink(target, name))
	}
	p.notes = ocinote.Dir(filepath.Join(t.TempDir(), "none"))
	t.Setenv("PATH", ours+":relative:"+real+":"+os.Getenv("PATH"))
	told, code := p.run("delete", someID)
	testutil.Assert(t, strings.HasSuffix(told, "delete "+someID) && code == 3, "got %q and %d", told, code)
	t.Setenv("PATH", ours)
	if told, code := p.run("delete", someID); !strings.Contains(told, "runc is not on PATH") || code != 1 {
		t.Errorf("without another runc: %q and %d", told, code)
	}
}
