package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// installed is a copy of the program as a package installs it. Beside it is a fake of runc's shim, which prints its
// arguments and calls runc for a container.
func (p place) installed() (shim string) {
	p.Helper()
	self, err := os.Executable()
	testutil.Must(p, err)
	root := p.TempDir()
	bin, libexec := filepath.Join(root, "bin"), filepath.Join(root, "libexec/criadapter")
	for _, dir := range []string{bin, libexec} {
		testutil.Must(p, os.MkdirAll(dir, 0o755))
	}
	program := filepath.Join(bin, "criadapter-oci")
	if err := os.Link(self, program); err != nil { // os.Executable sees through a symbolic link
		p.program(program, testutil.ReadFile(p, self))
	}
	shim = filepath.Join(bin, shimName)
	for link, target := range map[string]string{shim: "criadapter-oci",
		filepath.Join(libexec, "runc"): "../../bin/criadapter-oci"} {
		testutil.Must(p, os.Symlink(target, link))
	}
	real := filepath.Join(bin, realShim)
	p.program(real,
		"#!/bin/sh\necho \"shim $@\"\nexec runc --criadapter-notes "+string(p.notes)+
			" --root /run/containerd/runc/moby create --bundle "+p.bundle+" "+someID+"\n")
	return shim
}

// containerd finds the program as its shim. The program becomes runc's shim, which finds the program as runc. The
// cgroup driver is not systemd.
func TestShim(t *testing.T) {
	p := newPlace(t)
	shim := p.installed()
	testutil.Must(t, p.notes.Save(someID, ocinote.Note{Hostname: "web-0"}))
	p.write(filepath.Join(p.bundle, "config.json"), `{"linux": {"cgroupsPath": "kubepods-podx.slice:docker:0a"}}`)
	run := func() (string, int) {
		cmd := exec.Command(shim, "-namespace", "moby", "start")
		cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+filepath.Dir(shim)+":"+os.Getenv("PATH"))
		output, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(output)), cmd.ProcessState.ExitCode()
	}
	// The real runtime of this test is a wrapper that calls runc.
	wrapper, runc := filepath.Join(t.TempDir(), "wrapper"), filepath.Join(filepath.Dir(shim), "runc")
	for path, text := range map[string]string{wrapper: "#!/bin/sh\nexec runc \"$@\"\n",
		runc: "#!/bin/sh\necho --real \"$@\"\nexit 3\n"} {
		p.program(path, text)
	}
	testutil.Must(t, p.notes.SaveRuntime(ocinote.Runtime{Path: wrapper}))
	told, code := run()
	want := "shim -namespace moby start\n--real --systemd-cgroup --root /run/containerd/runc/moby create --bundle " +
		p.bundle + " " + someID
	testutil.Assert(t, told == want && code == 3, "got %q and %d, want %q and 3", told, code, want)
	got := p.read("config.json")
	testutil.Assert(t, strings.Contains(got, `"hostname":"web-0"`), "the configuration is %s", got)
	ours := filepath.Join(filepath.Dir(shim), runcDir, "runc")
	testutil.Must(t, os.Remove(ours))
	if told, code := run(); code != 1 || !strings.Contains(told, "there has to be a link "+ours) {
		t.Errorf("without runc's name: %q and %d", told, code)
	}
}

// A shim that still runs when this program is removed finds no other runc. Another runc would give a command the groups
// of the image.
func TestShimHasNoOtherRunc(t *testing.T) {
	p := newPlace(t)
	shim := p.installed()
	other := filepath.Join(t.TempDir(), "runc")
	p.program(other, "#!/bin/sh\necho another runc\n")
	p.write(filepath.Join(filepath.Dir(shim), realShim),
		"#!/bin/sh\n/bin/rm "+filepath.Join(filepath.Dir(shim), runcDir, "runc")+"\nexec runc exec "+someID+"\n")
	cmd := exec.Command(shim, "start")
	cmd.Env = append(os.Environ(), asProgram+"=1",
		"PATH="+filepath.Dir(other)+":"+filepath.Dir(shim)+":"+os.Getenv("PATH"))
	output, _ := cmd.CombinedOutput()
	testutil.Assert(t, cmd.ProcessState.ExitCode() == 127 && !strings.Contains(string(output), "another runc"),
		"%d: %s", cmd.ProcessState.ExitCode(), output)
}

func TestShimEnviron(t *testing.T) {
	for environ, want := range map[string]string{
		"":                             "PATH=/new",
		"A=b PATH=/a:/b":               "PATH=/new A=b CRIADAPTER_PATH=/a:/b",
		"PATHS=x PATH=/a":              "PATH=/new PATHS=x CRIADAPTER_PATH=/a",
		"CRIADAPTER_PATH=/old PATH=/a": "PATH=/new CRIADAPTER_PATH=/a",
	} {
		testutil.Equal(t, strings.Join(shimEnviron(strings.Fields(environ), "/new"), " "), want, "%q", environ)
	}
}

func TestRealEnviron(t *testing.T) {
	for environ, want := range map[string]string{
		"A=/own":                               "A=/own",
		"A=/own PATH=/own:/usr/bin:/own/:/bin": "A=/own PATH=/usr/bin:/bin",
		"PATH=/own CRIADAPTER_PATH=/usr/bin:/bin PATHS=x": "PATHS=x PATH=/usr/bin:/bin",
	} {
		testutil.Equal(t, strings.Join(realEnviron(strings.Fields(environ), "/own"), " "), want, "%q", environ)
	}
}

// For a container whose note names another shim, the program edits the configuration and becomes that shim.
func TestOtherShim(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: a shim reads notes in " + string(ocinote.DefaultDir))
	}
	p := newPlace(t)
	shim := p.installed()
	id := strings.Repeat("5e", 32)
	notes := ocinote.Dir(ocinote.DefaultDir)
	testutil.Must(t, notes.Save(id, ocinote.Note{
		Runtime: ocinote.Runtime{Shim: "containerd-shim-other-v2"}, Annotations: map[string]string{"a": "b"},
	}))
	t.Cleanup(func() { testutil.Check(t, notes.Remove(id)) })
	other := filepath.Join(filepath.Dir(shim), "containerd-shim-other-v2")
	p.program(other, "#!/bin/sh\necho other \"$@\"\n")
	for _, action := range []string{"delete", "start"} {
		cmd := exec.Command(shim, "-id", id, action)
		cmd.Dir = p.bundle
		cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+filepath.Dir(shim)+":"+os.Getenv("PATH"))
		output, err := cmd.CombinedOutput()
		testutil.Must(t, err)
		testutil.Equal(t, string(output), "other -id "+id+" "+action+"\n", "the output")
		config := p.read("config.json")
		testutil.Assert(t, strings.Contains(config, `"a":"b"`) == (action == "start"), "%s: the configuration is %s",
			action, config)
	}
}
