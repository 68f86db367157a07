package main

import "testing"

func TestTargets(t *testing.T) {
	for _, test := range []struct{ engines, modes, first, last string }{
		{"", "", "installed", "installed"},
		{"", "oci", "installed, oci", "installed, oci"},
		{"installed,29-containerd", "", "installed", "29-containerd"},
		{"installed,29-containerd", "oci", "installed, oci", "29-containerd, oci"},
		{"installed,29-containerd", "container,oci", "installed, container", "29-containerd, oci"},
		{"installed,29-containerd", ",oci", "installed", "29-containerd, oci"},
	} {
		all, err := targets(test.engines, test.modes)
		if err != nil || all[0].label() != test.first || all[len(all)-1].label() != test.last {
			t.Errorf("ENGINE=%s RUNTIME_MODE=%s: %v, %v", test.engines, test.modes, all, err)
		}
	}
	for _, bad := range [][2]string{{"29", ""}, {"", "both"}, {"", "oci,container"}, {"installed,29-containerd", "oci,oci,oci"}} {
		if all, err := targets(bad[0], bad[1]); err == nil {
			t.Errorf("ENGINE=%s RUNTIME_MODE=%s: %v", bad[0], bad[1], all)
		}
	}
}

func TestOneTarget(t *testing.T) {
	t.Setenv("ENGINE", "installed,29-containerd")
	t.Setenv("RUNTIME_MODE", "")
	if got, err := namedTarget(); err == nil {
		t.Errorf("two engines: %v", got)
	}
	t.Setenv("ENGINE", "29-containerd")
	t.Setenv("RUNTIME_MODE", "oci")
	if got, err := namedTarget(); err != nil || got.label() != "29-containerd, oci" {
		t.Errorf("%v, %v", got, err)
	}
}
