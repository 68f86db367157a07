package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// scripted is a machine in a directory, on which a script of a package runs. Commands are fakes.
type scripted struct {
	t *testing.T
	// root stands for the machine's root directory.
	root string
}

// newScripted makes a machine with the standard tools of the scripts.
func newScripted(t *testing.T) scripted {
	t.Helper()
	s := scripted{t: t, root: t.TempDir()}
	testutil.Must(t, os.Mkdir(s.path("bin"), 0o755))
	for _, tool := range []string{"grep", "ls", "readlink"} {
		path, err := exec.LookPath(tool)
		testutil.Must(t, err)
		testutil.Must(t, os.Symlink(path, s.path("bin", tool)))
	}
	return s
}

func (s scripted) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// command adds a command that records its arguments and then runs the lines of shell.
func (s scripted) command(name, lines string) {
	s.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho %s \"$*\" >> '%s'\n%s\n", name, s.path("calls"), lines)
	testutil.Must(s.t, os.WriteFile(s.path("bin", name), []byte(text), 0o755))
}

// systemd makes the directory that shows a running systemd, and the commands for it. systemctl runs the lines of shell.
func (s scripted) systemd(lines string) {
	s.t.Helper()
	testutil.Must(s.t, os.MkdirAll(s.path("run/systemd/system"), 0o755))
	s.command("systemctl", lines)
	s.command("deb-systemd-invoke", "")
}

// link makes a symbolic link in the machine.
func (s scripted) link(path, target string) {
	s.t.Helper()
	testutil.Must(s.t, os.MkdirAll(filepath.Dir(s.path(path)), 0o755))
	testutil.Must(s.t, os.Symlink(target, s.path(path)))
}

// run runs a script, which must succeed, and returns the calls of the commands.
func (s scripted) run(script string, args ...string) []string {
	s.t.Helper()
	text := testutil.ReadFile(s.t, filepath.Join("..", script))
	for _, dir := range []string{"/run/", "/proc/", "/etc/", "/usr/lib/", "/var/"} {
		text = strings.ReplaceAll(text, dir, s.root+dir)
	}
	cmd := exec.CommandContext(s.t.Context(), "/bin/sh", append([]string{"-c", text, script}, args...)...)
	cmd.Env = []string{"PATH=" + s.path("bin")}
	out, err := cmd.CombinedOutput()
	testutil.Assert(s.t, err == nil, "%s %v: %v\n%s", script, args, err, out)
	calls, err := os.ReadFile(s.path("calls"))
	testutil.Must(s.t, err)
	return strings.Split(strings.TrimSpace(string(calls)), "\n")
}

// TestUpgradeRestartsOnlyItsOwnProgram: the scripts restart a cri-docker.service that runs criadapter. They do not
// restart the service of a real cri-dockerd, because criadapter would take over its pods meanwhile.
func TestUpgradeRestartsOnlyItsOwnProgram(t *testing.T) {
	for _, script := range []struct {
		name, argument, restart string
	}{
		{"criadapter/postinst.deb", "configure", "deb-systemd-invoke restart cri-docker.service"},
		{"criadapter/postun.rpm", "1", "systemctl restart cri-docker.service"},
	} {
		for program, ours := range map[string]bool{
			"/usr/bin/criadapter": true, "/usr/bin/criadapter (deleted)": true, "/usr/bin/cri-dockerd": false,
			"/usr/local/bin/cri-dockerd": false, "": false,
		} {
			s := newScripted(t)
			s.command("deb-systemd-helper", "")
			s.systemd(`case $1 in show) echo MainPID=42 ;; esac`)
			if program != "" {
				s.link("proc/42/exe", program)
			}
			calls := s.run(script.name, script.argument)
			testutil.Assert(t, slices.Contains(calls, script.restart) == ours, "%s with %q made the calls %q",
				script.name, program, calls)
		}
	}
}

const disableOwn = "deb-systemd-helper disable criadapter.socket criadapter.service"

// TestNamesNeedNoSystemctl installs and removes the package criadapter-cri-docker in an image without systemd.
func TestNamesNeedNoSystemctl(t *testing.T) {
	s := newScripted(t)
	s.command("deb-systemd-helper", "")
	testutil.WriteFile(t, s.path("usr/lib/systemd/system/criadapter.service"), "")
	calls := s.run("cri-docker/postinst.deb", "configure")
	testutil.Assert(t, slices.Contains(calls, disableOwn), "the installation made the calls %q", calls)
	calls = s.run("cri-docker/postrm.deb", "remove")
	testutil.Assert(t, slices.Contains(calls, "deb-systemd-helper enable criadapter.socket criadapter.service"),
		"the removal made the calls %q", calls)
}

// TestNamesKeepTheOperatorsChoice upgrades the package criadapter-cri-docker. Where the operator has disabled or masked
// cri-docker.service, criadapter.service stays as it is.
func TestNamesKeepTheOperatorsChoice(t *testing.T) {
	const stopOwn = "deb-systemd-invoke stop criadapter.socket criadapter.service"
	for _, tt := range []struct{ enabled, masked, serves bool }{
		{enabled: true, serves: true}, {enabled: true, masked: true}, {enabled: false},
	} {
		s := newScripted(t)
		testutil.WriteFile(t, s.path("usr/lib/systemd/system/criadapter.service"), "")
		s.command("deb-systemd-helper", fmt.Sprintf(`case "$*" in *-enabled*) [ %t = true ] ;; esac`, tt.enabled))
		s.systemd("")
		if tt.masked {
			s.link("etc/systemd/system/cri-docker.service", "/dev/null")
		}
		calls := s.run("cri-docker/postinst.deb", "configure", "1.2.3")
		for _, call := range []string{disableOwn, stopOwn} {
			testutil.Assert(t, slices.Contains(calls, call) == tt.serves, "%+v made the calls %q", tt, calls)
		}
	}
}

// TestNamesCanBeRemovedFromMaskedUnits removes the package criadapter-cri-docker while criadapter's units are masked.
func TestNamesCanBeRemovedFromMaskedUnits(t *testing.T) {
	s := newScripted(t)
	testutil.WriteFile(t, s.path("usr/lib/systemd/system/criadapter.service"), "")
	s.command("deb-systemd-helper", "")
	s.systemd(`case $1 in enable) exit 1 ;; esac`)
	s.run("cri-docker/postrm.deb", "remove")
}

// TestServiceThatDoesNotStart: a service does not start, for example because of a wrong setting. The script still
// starts the other units and succeeds. Otherwise dpkg would leave the package unconfigured, and apt would refuse other
// work.
func TestServiceThatDoesNotStart(t *testing.T) {
	for _, tt := range []struct {
		script, argument string
		calls            []string
	}{
		{"criadapter/postinst.deb", "configure", []string{"start criadapter.socket", "restart criadapter.service",
			"restart cri-docker.service"}},
		{"cri-docker/postinst.deb", "configure", []string{"start cri-docker.socket", "restart cri-docker.service"}},
		{"cri-docker/postrm.deb", "remove", []string{"start criadapter.socket criadapter.service"}},
		{"kubelet-core/postinst.deb", "configure", []string{"restart kubelet-core.service"}},
	} {
		s := newScripted(t)
		testutil.WriteFile(t, s.path("usr/lib/systemd/system/criadapter.service"), "")
		s.command("deb-systemd-helper", "")
		s.systemd(`case $1 in show) echo MainPID=42 ;; esac`)
		s.command("deb-systemd-invoke", "case $1 in start | restart) exit 1 ;; esac")
		s.link("proc/42/exe", "/usr/bin/criadapter")
		calls := s.run(tt.script, tt.argument)
		for _, call := range tt.calls {
			testutil.Assert(t, slices.Contains(calls, "deb-systemd-invoke "+call), "%s made the calls %q", tt.script,
				calls)
		}
	}
}
