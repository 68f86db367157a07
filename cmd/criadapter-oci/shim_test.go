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

// A shim that runs while this program is taken away finds no other runc: a command would have the groups of the image.
func TestShimHasNoOtherRunc(t *testing.T) {
	p := newPlace(t)
	shim := p.installed()
	other := filepath.Join(t.TempDir(), "runc")
	p.write(other, "#!/bin/sh\necho another runc\n")
	p.write(filepath.Join(filepath.Dir(shim), realShim), "#!/bin/sh\n/bin/rm "+filepath.Join(filepath.Dir(shim), runcDir, "runc")+"\nexec runc exec "+someID+"\n")
	if err := os.Chmod(other, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shim, "start")
	cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+filepath.Dir(other)+":"+filepath.Dir(shim)+":"+os.Getenv("PATH"))
	if output, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 127 || strings.Contains(string(output), "another runc") {
		t.Errorf("%d: %s", cmd.ProcessState.ExitCode(), output)
	}
}

func TestShimEnviron(t *testing.T) {
	for environ, want := range map[string]string{
		"":                             "PATH=/new",
		"A=b PATH=/a:/b":               "PATH=/new A=b CRIADAPTER_PATH=/a:/b",
		"PATHS=x PATH=/a":              "PATH=/new PATHS=x CRIADAPTER_PATH=/a",
		"CRIADAPTER_PATH=/old PATH=/a": "PATH=/new CRIADAPTER_PATH=/a",
	} {
		if got := strings.Join(shimEnviron(strings.Fields(environ), "/new"), " "); got != want {
			t.Errorf("%q: got %q, want %q", environ, got, want)
		}
	}
}

func TestRealEnviron(t *testing.T) {
	for environ, want := range map[string]string{
		"A=/own":                               "A=/own",
		"A=/own PATH=/own:/usr/bin:/own/:/bin": "A=/own PATH=/usr/bin:/bin",
		"PATH=/own CRIADAPTER_PATH=/usr/bin:/bin PATHS=x": "PATHS=x PATH=/usr/bin:/bin",
	} {
		if got := strings.Join(realEnviron(strings.Fields(environ), "/own"), " "); got != want {
			t.Errorf("%q: got %q, want %q", environ, got, want)
		}
	}
}
