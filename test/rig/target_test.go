package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func TestTargets(t *testing.T) {
	for _, test := range []struct{ engines, modes, registrations, first, last string }{
		{"", "", "", "installed", "installed"},
		{"", "oci", "daemon.json", "installed, oci, daemon.json", "installed, oci, daemon.json"},
		{"installed,29-containerd", "", "", "installed", "29-containerd"},
		{"installed,29-containerd", "oci", "", "installed, oci", "29-containerd, oci"},
		{"installed,29-containerd", "container,oci", "daemon.json,shim", "installed, container, daemon.json",
			"29-containerd, oci, shim"},
		{"installed,29-containerd", ",oci", ",shim", "installed", "29-containerd, oci, shim"},
	} {
		all, err := targets(test.engines, test.modes, test.registrations)
		testutil.Assert(t, err == nil && all[0].label() == test.first && all[len(all)-1].label() == test.last,
			"%+v: %v, %v", test, all, err)
	}
	for _, bad := range [][3]string{
		{"29", "", ""}, {"", "both", ""}, {"", "oci,container", ""}, {"installed,29-containerd", "oci,oci,oci", ""},
		{"", "", "path"}, {"", "", "shim,shim"},
	} {
		all, err := targets(bad[0], bad[1], bad[2])
		testutil.Assert(t, err != nil, "ENGINE=%s RUNTIME_MODE=%s REGISTRATION=%s: %v", bad[0], bad[1], bad[2], all)
	}
}

// RegistrationShim is refused for Docker Engine older than 23, and the engine is not started. RegistrationDaemonJSON is
// possible with every engine.
func TestCanRegister(t *testing.T) {
	for version, want := range map[string]map[string]string{
		"Docker version 20.10.24+dfsg1, build 5d6db84": {rigenv.RegistrationShim: "Docker Engine 20, and only 23",
			rigenv.RegistrationDaemonJSON: "", "": ""},
		"Docker version 29.8.0, build library-import": {rigenv.RegistrationShim: "",
			rigenv.RegistrationDaemonJSON: ""},
		"nonsense": {rigenv.RegistrationShim: "said \"nonsense\"", "": ""},
	} {
		dockerd := filepath.Join(t.TempDir(), "dockerd")
		testutil.Must(t, os.WriteFile(dockerd, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755))
		for registration, says := range want {
			err := target{registration: registration}.canRegister(t.Context(), dockerd)
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s with %q: %v, want %q", version, registration, err, says)
			}
		}
	}
}

func TestOneTarget(t *testing.T) {
	t.Setenv("ENGINE", "installed,29-containerd")
	t.Setenv("RUNTIME_MODE", "")
	t.Setenv("REGISTRATION", "")
	got, err := namedTarget()
	testutil.Assert(t, err != nil, "two engines: %v", got)
	t.Setenv("ENGINE", "29-containerd")
	t.Setenv("RUNTIME_MODE", "oci")
	t.Setenv("REGISTRATION", "shim")
	got, err = namedTarget()
	testutil.Assert(t, err == nil && got.label() == "29-containerd, oci, shim", "%v, %v", got, err)
}
