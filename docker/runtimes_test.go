package docker

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSandboxedRuntimes(t *testing.T) {
	const info = `{
		"runc": {"path": "runc"}, "io.containerd.runc.v2": {"path": "runc"}, "io.containerd.runtime.v1.linux": {"path": "runc"},
		"crun": {"path": "/usr/local/bin/crun"}, "youki": {"path": "/usr/bin/youki"}, "old": {"path": "/opt/runc-1.1.5"},
		"docker": {"path": "/usr/libexec/docker-runc"}, "wrapped": {"path": "/opt/wrap/runc.sh"},
		"nvidia": {"path": "nvidia-container-runtime"}, "nvidia-cdi": {"path": "/usr/bin/nvidia-container-runtime.cdi"},
		"sysbox": {"path": "/usr/bin/sysbox-runc"}, "shim": {"runtimeType": "io.containerd.runc.v2"},
		"shim-crun": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/usr/bin/crun"}},

		"wrapper": {"path": "/usr/local/bin/oci-hook"}, "kata": {"path": "/opt/kata/bin/pod-hook"}, "none": {},
		"io.containerd.wasmtime.v1": {}, "youki-shim": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": 5}},

		"gvisor": {"path": "/usr/local/bin/runsc"}, "gvisor-shim": {"runtimeType": "io.containerd.runsc.v1"},
		"kata-bin": {"path": "/opt/kata/bin/kata-runtime"}, "kata-shim": {"runtimeType": "io.containerd.kata.v2"},
		"kata-qemu": {"runtimeType": "io.containerd.kata-qemu.v2"}, "kata2": {"runtimeType": "io.containerd.kata2.v2"},
		"shim-path": {"runtimeType": "/usr/bin/containerd-shim-kata-v2"}, "fc": {"runtimeType": "aws.firecracker"},
		"io.containerd.kata.v2": {},
		"kata-by-runc-shim": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "kata-runtime"}},
		"runc-by-name": {"path": "/usr/bin/runsc"}
	}`
	var runtimes map[string]system.RuntimeWithStatus
	testutil.Must(t, json.Unmarshal([]byte(info), &runtimes))
	want := []string{"fc", "gvisor", "gvisor-shim", "io.containerd.kata.v2", "kata-bin", "kata-by-runc-shim",
		"kata-qemu", "kata-shim", "kata2", "runc-by-name", "shim-path"}
	got := sandboxedRuntimes(runtimes, "wrapper")
	testutil.Assert(t, slices.Equal(got, want), "got  %v\nwant %v", got, want)
	tried := podSandboxRuntimes(runtimes)
	testutil.Assert(t, slices.Equal(tried, []string{"gvisor", "runc-by-name"}), "runtimes of pod sandboxes: %v", tried)
	// The default may be a shim that is not listed.
	for fallback, want := range map[string][]string{"": nil, "runc": nil,
		"io.containerd.runsc.v1": {"io.containerd.runsc.v1"}} {
		got := sandboxedRuntimes(nil, fallback)
		testutil.Assert(t, slices.Equal(got, want), "the default %q: %v", fallback, got)
	}
}

// A runtime's name says which shim of Kata Containers it has. The engine has to find the shim.
func TestOwnShims(t *testing.T) {
	process := t.TempDir()
	testutil.WriteFile(t, filepath.Join(process, "environ"), "PATH=/usr/bin")
	place := filepath.Join(process, "root/usr/bin")
	testutil.Must(t, os.MkdirAll(place, 0o755))
	for _, shim := range []string{"kata", "kata-qemu", "other"} {
		testutil.WriteFile(t, filepath.Join(place, "containerd-shim-"+shim+"-v2"), "")
	}
	runtimes := map[string]system.RuntimeWithStatus{
		"kata": {}, "kata-qemu": {}, "kata-clh": {}, "other": {}, "runc": {},
	}
	runtimes["kata-path"] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: "kata-runtime"}}
	want := map[string]string{"kata": "containerd-shim-kata-v2", "kata-qemu": "containerd-shim-kata-qemu-v2"}
	got := ownShims(runtimes, process)
	testutil.Assert(t, maps.Equal(got, want), "got  %v\nwant %v", got, want)
}
