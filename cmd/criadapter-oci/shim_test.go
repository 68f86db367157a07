package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// installed is a copy of the program as a package installs it, beside a shim of runc's that tells its arguments and calls
// runc for a container.
func (p place) installed() (shim string) {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	root := p.TempDir()
	bin, libexec := filepath.Join(root, "bin"), filepath.Join(root, "libexec/criadapter")
	for _, dir := range []string{bin, libexec} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			p.Fatal(err)
		}
	}
	program := filepath.Join(bin, "criadapter-oci")
	if err := os.Link(self, program); err != nil { // os.Executable sees through a symbolic link
		text, err := os.ReadFile(self)
		if err != nil {
			p.Fatal(err)
		}
		p.write(program, string(text))
		if err := os.Chmod(program, 0o755); err != nil {
			p.Fatal(err)
		}
	}
	shim = filepath.Join(bin, shimName)
	for link, target := range map[string]string{shim: "criadapter-oci", filepath.Join(libexec, "runc"): "../../bin/criadapter-oci"} {
		if err := os.Symlink(target, link); err != nil {
			p.Fatal(err)
		}
	}
	real := filepath.Join(bin, realShim)
	p.write(real, "#!/bin/sh\necho \"shim $@\"\nexec runc --criadapter-notes "+string(p.notes)+" --root /run/containerd/runc/moby create --bundle "+p.bundle+" "+someID+"\n")
	if err := os.Chmod(real, 0o755); err != nil {
		p.Fatal(err)
	}
	return shim
}

// containerd finds the shim, the shim finds runc's, and that finds the program as runc. Nobody says that the cgroups are
// systemd's.
func TestShim(t *testing.T) {
	p := newPlace(t)
	shim := p.installed()
	if err := p.notes.Save(someID, ocinote.Note{Hostname: "web-0"}); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.bundle, "config.json"), `{"linux": {"cgroupsPath": "kubepods-podx.slice:docker:0a"}}`)
	run := func() (string, int) {
		cmd := exec.Command(shim, "-namespace", "moby", "start")
		cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+filepath.Dir(shim)+":"+os.Getenv("PATH"))
		output, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(output)), cmd.ProcessState.ExitCode()
	}
	// The real runtime of this test is a wrapper that calls runc.
	wrapper, runc := filepath.Join(t.TempDir(), "wrapper"), filepath.Join(filepath.Dir(shim), "runc")
	for path, text := range map[string]string{wrapper: "#!/bin/sh\nexec runc \"$@\"\n", runc: "#!/bin/sh\necho --real \"$@\"\nexit 3\n"} {
		p.write(path, text)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.notes.SaveRuntime(ocinote.Runtime{Path: wrapper}); err != nil {
		t.Fatal(err)
	}
	told, code := run()
	want := "shim -namespace moby start\n--real --systemd-cgroup --root /run/containerd/runc/moby create --bundle " + p.bundle + " " + someID
	if told != want || code != 3 {
		t.Errorf("got %q and %d, want %q and 3", told, code, want)
	}
	if got := p.read("config.json"); !strings.Contains(got, `"hostname":"web-0"`) {
		t.Errorf("the configuration is %s", got)
	}
	ours := filepath.Join(filepath.Dir(shim), runcDir, "runc")
	if err := os.Remove(ours); err != nil {
		t.Fatal(err)
	}
	if told, code := run(); code != 1 || !strings.Contains(told, "there has to be a link "+ours) {
		t.Errorf("without runc's name: %q and %d", told, code)
	}
}

func TestWithoutPath(t *testing.T) {
	environ := []string{"A=/own", "PATH=/own:/usr/bin:/own/:/bin"}
	if got, want := strings.Join(withoutPath(environ, "/own"), " "), "A=/own PATH=/usr/bin:/bin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithPath(t *testing.T) {
	for environ, want := range map[string]string{
		"":                "PATH=/new",
		"A=b PATH=/a:/b":  "PATH=/new:/a:/b A=b",
		"PATHS=x PATH=/a": "PATH=/new:/a PATHS=x",
	} {
		if got := strings.Join(withPath(strings.Fields(environ), "/new"), " "); got != want {
			t.Errorf("%q: got %q, want %q", environ, got, want)
		}
	}
}
