package translate

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// cdiSpec is a specification with one of each kind of edit.
const cdiSpec = `{
	"cdiVersion": "0.7.0", "kind": "vendor.com/gpu",
	"containerEdits": {"env": ["DRIVER=1"]},
	"devices": [
		{"name": "0", "containerEdits": {
			"env": ["GPU=0"], "additionalGids": [44], "intelRdt": {"closID": "gpus"},
			"deviceNodes": [
				{"path": "/dev/gpu0", "hostPath": "/dev/full", "permissions": "rw", "gid": 44},
				{"path": "/dev/none", "type": "c", "major": 250, "minor": 7, "fileMode": 384, "permissions": "none"}
			],
			"mounts": [{"hostPath": "/usr/lib/gpu", "containerPath": "/lib/gpu", "options": ["ro", "nosuid"], "type": "bind"}],
			"hooks": [{"hookName": "createContainer", "path": "/usr/bin/gpu-hook", "args": ["gpu-hook", "ldconfig"], "timeout": 3}]
		}},
		{"name": "1", "containerEdits": {"env": ["GPU=1"]}}
	]
}`

func TestReadCDI(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "none"), t.TempDir()}
	testutil.WriteFile(t, filepath.Join(dirs[1], "gpu.json"), cdiSpec)
	got, err := readCDI(dirs, []string{"vendor.com/gpu=0"})
	want := CDIEdits{
		env: []string{"DRIVER=1", "GPU=0"}, groups: []uint32{44}, intelRDT: json.RawMessage(`{"closID":"gpus"}`),
		devices: []ocinote.Device{
			{Path: "/dev/gpu0", Type: "c", Major: 1, Minor: 7, Access: "rw", FileMode: new(uint32(0o666)),
				GID: new(uint32(44))},
			{Path: "/dev/none", Type: "c", Major: 250, Minor: 7, FileMode: new(uint32(0o600))},
		},
		mounts: []ocinote.Mount{
			{Destination: "/lib/gpu", Type: "bind", Source: "/usr/lib/gpu", Options: []string{"ro", "nosuid"}}},
		hooks: map[string][]ocinote.Hook{
			"createContainer": {{Path: "/usr/bin/gpu-hook", Args: []string{"gpu-hook", "ldconfig"}, Timeout: new(3)}}},
	}
	testutil.Assert(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v, want %+v", got, err, want)
	both, err := readCDI(dirs, []string{"vendor.com/gpu=0", "vendor.com/gpu=1"})
	testutil.Assert(t, err == nil && slices.Equal(both.env, []string{"DRIVER=1", "GPU=1"}),
		"two devices: %+v, %v", both, err)
}

// sameText reports whether two values have the same JSON text in a note.
func sameText(t *testing.T, a, b any) bool {
	t.Helper()
	first, err := json.Marshal(a)
	testutil.Must(t, err)
	second, err := json.Marshal(b)
	testutil.Must(t, err)
	return string(first) == string(second)
}

func TestCDIDevicesThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "gpu.json"), cdiSpec)
	testutil.WriteFile(t, filepath.Join(dir, "net.json"), `{"cdiVersion": "1.1.0", "kind": "vendor.com/net", "devices": [
		{"name": "0", "containerEdits": {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth1"}]}},
		{"name": "lost", "containerEdits": {"deviceNodes": [{"path": "/dev/nonesuch"}]}}]}`)
	testutil.WriteFile(t, filepath.Join(dir, "broken.json"), `{"cdiVersion": `)
	for device, want := range map[string]string{
		"vendor.com/gpu=7": "has the CDI device vendor.com/gpu=7; " + filepath.Join(dir, "broken.json") +
			" cannot be used: ",
		"vendor.com/net=0":    "netDevices",
		"vendor.com/net=lost": "CDI device vendor.com/net=lost: ",
	} {
		_, err := readCDI([]string{dir}, []string{device})
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", device, err, want)
	}
}

// For an engine without CDI, an edit becomes a field of the Docker API. An edit without such a field goes into the
// note.
func TestCDIDevicesInNotes(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "gpu.json"), cdiSpec)
	in := noted(containerInput())
	in.ReadCDI = func(devices []string) (CDIEdits, error) { return readCDI([]string{dir}, devices) }
	in.Config.Envs = []*runtimeapi.KeyValue{{Key: "GPU", Value: []byte("none")}, {Key: "GPUS", Value: []byte("2")}}
	in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
		SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict}
	withCDI("vendor.com/gpu=0")(&in, in.Config)
	spec := mustContainer(t, in)
	want := []string{"GPUS=2", "DRIVER=1", "GPU=0"}
	testutil.Assert(t, slices.Equal(spec.Config.Env, want), "the environment is %q, want %q", spec.Config.Env, want)
	note := spec.Note
	if note == nil || len(note.Devices) != 2 || len(note.Mounts) != 1 || len(note.Hooks) != 1 ||
		len(note.IntelRDT) == 0 ||
		!reflect.DeepEqual(note.Process.Groups, &[]uint32{44}) || !slices.Equal(spec.Host.GroupAdd, []string{"44"}) ||
		spec.Host.DeviceRequests != nil {
		t.Errorf("got %+v and %+v", note, spec.Host)
	}
	in.Config.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor.com/gpu=7"}}
	_, err := Container(in)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) &&
		strings.HasPrefix(err.Error(), "config.CDI_devices[0].name: ") &&
		strings.Contains(err.Error(), "vendor.com/gpu=7"), "an unknown device: %v", err)
}

// An engine with CDI makes the edits. The container's configuration has the variables and groups, too, for commands.
func TestCDIDevicesOfTheEngine(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "gpu.json"), cdiSpec)
	in := noted(containerInput())
	in.Features.CDI = true
	in.ReadCDI = func(devices []string) (CDIEdits, error) { return readCDI([]string{dir}, devices) }
	in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
		SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict}
	withCDI("vendor.com/gpu=0")(&in, in.Config)
	spec := mustContainer(t, in)
	testutil.Assert(t, len(spec.Host.DeviceRequests) == 1 && len(spec.Note.Devices) == 0,
		"the engine gets %+v, the note has %+v", spec.Host.DeviceRequests, spec.Note.Devices)
	testutil.Assert(t, slices.Equal(spec.Config.Env, []string{"DRIVER=1", "GPU=0"}) &&
		slices.Equal(spec.Host.GroupAdd, []string{"44"}) && slices.Equal(*spec.Note.Process.Groups, []uint32{44}),
		"the environment is %q, the groups are %q and %v", spec.Config.Env, spec.Host.GroupAdd,
		spec.Note.Process.Groups)
}

// A container without a note gets the variables and groups of a device that criadapter can read. The engine gets the
// names of both devices, because it may know the other one.
func TestCDIDevicesOfTheEngineWithoutANote(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "gpu.json"), cdiSpec)
	in := containerInput()
	in.Features = newEngine()
	in.ReadCDI = func(devices []string) (CDIEdits, error) { return readCDI([]string{dir}, devices) }
	withCDI("vendor.com/gpu=7", "vendor.com/gpu=0")(&in, in.Config)
	spec := mustContainer(t, in)
	testutil.Assert(t, spec.Note == nil && len(spec.Host.DeviceRequests[0].DeviceIDs) == 2 &&
		slices.Equal(spec.Config.Env, []string{"DRIVER=1", "GPU=0"}) &&
		slices.Equal(spec.Host.GroupAdd, []string{"44"}),
		"note %v, devices %v, environment %q, groups %q", spec.Note, spec.Host.DeviceRequests, spec.Config.Env,
		spec.Host.GroupAdd)
}

func TestCDIDevicesOfPlugins(t *testing.T) {
	edits := CDIEdits{env: []string{"A=1"}, groups: []uint32{5}, devices: []ocinote.Device{{Path: "/dev/a"}},
		mounts: []ocinote.Mount{{Destination: "/m"}}, hooks: map[string][]ocinote.Hook{"poststop": {{Path: "/h"}}},
		intelRDT: json.RawMessage(`{"closID":"c"}`)}
	a := ocinote.Adjustment{Hooks: map[string][]ocinote.Hook{"poststop": {{Path: "/own"}}}}
	edits.Adjust(&a)
	want := ocinote.Adjustment{
		Devices: edits.devices, Mounts: edits.mounts,
		Hooks:   map[string][]ocinote.Hook{"poststop": {{Path: "/own"}, {Path: "/h"}}},
		Config:  []json.RawMessage{json.RawMessage(`{"linux":{"intelRdt":{"closID":"c"}}}`)},
		Process: ocinote.ProcessAdjustment{Env: edits.env, Groups: edits.groups},
	}
	testutil.Assert(t, reflect.DeepEqual(a, want), "got %+v, want %+v", a, want)
}
