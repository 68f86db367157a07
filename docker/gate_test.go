package docker

import (
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/blkiodev"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/internal/testutil"
)

func hostSpec(h container.HostConfig) ContainerSpec { return ContainerSpec{Host: &h} }

func mountSpec(m mount.Mount) ContainerSpec {
	return hostSpec(container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeBind}, m}})
}

func networkSpec(endpoints map[string]*network.EndpointSettings) ContainerSpec {
	return ContainerSpec{Network: &network.NetworkingConfig{EndpointsConfig: endpoints}}
}

// newerSpecs uses each field of the table newerFields once.
func newerSpecs() map[string]ContainerSpec {
	umask := uint32(0o22)
	return map[string]ContainerSpec{
		"HostConfig.ConsoleSize": hostSpec(container.HostConfig{ConsoleSize: [2]uint{24, 80}}),
		"HostConfig.Mounts.BindOptions.CreateMountpoint": mountSpec(mount.Mount{
			Type: mount.TypeBind, BindOptions: &mount.BindOptions{CreateMountpoint: true}}),
		"HostConfig.Mounts.Type cluster": mountSpec(mount.Mount{Type: mount.TypeCluster}),
		"HostConfig.Annotations":         hostSpec(container.HostConfig{Annotations: map[string]string{"a": "b"}}),
		"HostConfig.Mounts.BindOptions.ReadOnlyNonRecursive": mountSpec(mount.Mount{
			Type: mount.TypeBind, ReadOnly: true, BindOptions: &mount.BindOptions{ReadOnlyNonRecursive: true}}),
		"HostConfig.Mounts.BindOptions.ReadOnlyForceRecursive": mountSpec(mount.Mount{
			Type: mount.TypeBind, ReadOnly: true, BindOptions: &mount.BindOptions{ReadOnlyForceRecursive: true}}),
		"HostConfig.DeviceRequests of the driver cdi": hostSpec(container.HostConfig{Resources: container.Resources{
			DeviceRequests: []container.DeviceRequest{{Driver: "nvidia"},
				{Driver: "cdi", DeviceIDs: []string{"vendor.com/gpu=0"}}}}}),
		"Config.Healthcheck.StartInterval": {
			Config: &container.Config{Healthcheck: &dockerspec.HealthcheckConfig{StartInterval: 1}}},
		"NetworkingConfig.EndpointsConfig with several networks": networkSpec(map[string]*network.EndpointSettings{
			"a": nil, "b": {}}),
		"NetworkingConfig.EndpointsConfig.MacAddress": networkSpec(map[string]*network.EndpointSettings{
			"a": {MacAddress: network.HardwareAddr{2, 0, 0, 0, 0, 1}}}),
		"HostConfig.Mounts.VolumeOptions.Subpath": mountSpec(mount.Mount{
			Type: mount.TypeVolume, VolumeOptions: &mount.VolumeOptions{Subpath: "x"}}),
		"HostConfig.Mounts.TmpfsOptions.Options": mountSpec(mount.Mount{
			Type: mount.TypeTmpfs, TmpfsOptions: &mount.TmpfsOptions{Options: [][]string{{"noexec"}}}}),
		"HostConfig.Mounts.Type image": mountSpec(mount.Mount{Type: mount.TypeImage, Source: "busybox"}),
		"NetworkingConfig.EndpointsConfig.GwPriority": networkSpec(map[string]*network.EndpointSettings{
			"a": {GwPriority: 1}}),
		"HostConfig.Umask": hostSpec(container.HostConfig{Umask: &umask}),
	}
}

// versionBefore maps each API version of newerFields to the API version before it.
var versionBefore = map[string]string{
	"1.42": "1.41", "1.43": "1.42", "1.44": "1.43", "1.45": "1.44", "1.46": "1.45", "1.48": "1.47", "1.56": "1.55",
}

func TestCheckSpec(t *testing.T) {
	specs := newerSpecs()
	testutil.Require(t, len(specs) == len(newerFields),
		"the test uses %d fields, the table has %d", len(specs), len(newerFields))
	for _, field := range newerFields {
		t.Run(field.name, func(t *testing.T) {
			spec, ok := specs[field.name]
			testutil.Require(t, ok, "the test does not use this field")
			err := CheckSpec(spec, Features{ServerVersion: "x", APIVersion: versionBefore[field.since]})
			wantType(t, "the version before", err, errdefs.ErrNotImplemented)
			testutil.Assert(t, err == nil || strings.Contains(err.Error(), field.name+" needs API "+field.since),
				"%q does not name the field and the version", err)
			testutil.Check(t, CheckSpec(spec, Features{APIVersion: field.since}), "the version that introduced it")
		})
	}
}

// TestCheckSpecPlain shows that fields of the oldest engine are accepted.
func TestCheckSpecPlain(t *testing.T) {
	for name, spec := range map[string]ContainerSpec{
		"empty": {},
		"everything old": {
			Config: &container.Config{Healthcheck: &dockerspec.HealthcheckConfig{Test: []string{"NONE"}},
				StopSignal: "SIGTERM"},
			Host: &container.HostConfig{
				CgroupnsMode: "private",
				Mounts: []mount.Mount{
					{Type: mount.TypeBind, ReadOnly: true,
						BindOptions: &mount.BindOptions{Propagation: mount.PropagationRSlave, NonRecursive: true}},
					{Type: mount.TypeTmpfs, TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 1}},
				},
				Resources: container.Resources{
					DeviceRequests: []container.DeviceRequest{{Driver: "nvidia", Count: -1}}},
			},
			Network: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"bridge": nil}},
		},
	} {
		err := CheckSpec(spec, Features{APIVersion: minAPIVersion})
		testutil.Assert(t, err == nil, "%s: %v", name, err)
	}
}

func TestCheckUpdate(t *testing.T) {
	devices := []*blkiodev.ThrottleDevice{{Path: "/dev/sda", Rate: 1}}
	for name, c := range map[string]struct {
		api       string
		resources container.Resources
		want      error
	}{
		"plain":               {"1.41", container.Resources{Memory: 1 << 30}, nil},
		"devices, old engine": {"1.54", container.Resources{BlkioDeviceReadBps: devices}, errdefs.ErrNotImplemented},
		"weights, old engine": {"1.41", container.Resources{BlkioWeightDevice: []*blkiodev.WeightDevice{{}}},
			errdefs.ErrNotImplemented},
		"devices, new engine":  {"1.55", container.Resources{BlkioDeviceReadBps: devices}, nil},
		"emptied, old engine":  {"1.41", container.Resources{BlkioDeviceReadBps: devices[:0]}, nil},
		"weight of everything": {"1.41", container.Resources{BlkioWeight: 500}, nil},
	} {
		err := CheckUpdate(c.resources, Features{APIVersion: c.api})
		if c.want == nil && err != nil || c.want != nil && !errdefs.IsNotImplemented(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckUpdateHasOneText checks that the same refusal always has the same text, which names all fields.
func TestCheckUpdateHasOneText(t *testing.T) {
	devices := []*blkiodev.ThrottleDevice{{Path: "/dev/sda", Rate: 1}}
	resources := container.Resources{BlkioDeviceWriteIOps: devices, BlkioDeviceReadBps: devices,
		BlkioDeviceReadIOps: devices, BlkioDeviceWriteBps: devices}
	const want = "too old for this container: an update of BlkioDeviceReadBps needs API 1.55, an update of " +
		"BlkioDeviceWriteBps needs API 1.55, an update of BlkioDeviceReadIOps needs API 1.55, an update of " +
		"BlkioDeviceWriteIOps needs API 1.55"
	for range 20 {
		err := CheckUpdate(resources, Features{APIVersion: "1.54"})
		testutil.Require(t, err != nil && strings.HasSuffix(err.Error(), want), "got %v, want %q", err, want)
	}
}

// TestRefusedFieldIsNotSent shows that a request with a refused field does not reach the engine.
func TestRefusedFieldIsNotSent(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /containers/create", func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the request was sent")
		fail(w, http.StatusInternalServerError, "")
	})
	spec := newerSpecs()["HostConfig.Annotations"]
	spec.Config = &container.Config{Image: "busybox"}
	_, err := f.dial(0).CreateContainer(testContext(t), spec)
	wantType(t, "CreateContainer", err, errdefs.ErrNotImplemented)
}
