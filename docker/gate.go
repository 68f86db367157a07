package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
)

// newerField is a field of a request that came with an API version above the oldest supported one. Older engines ignore
// it silently, and would start a container without it.
type newerField struct {
	name  string
	since string
	used  func(ContainerSpec) bool
}

// newerFields has all fields of POST /containers/create that came after API 1.41, by the API's version history. It is
// read-only.
var newerFields = []newerField{
	{"HostConfig.ConsoleSize", "1.42",
		onHost(func(h *container.HostConfig) bool { return h.ConsoleSize != [2]uint{} })},
	{"HostConfig.Mounts.BindOptions.CreateMountpoint", "1.42",
		onBind(func(b *mount.BindOptions) bool { return b.CreateMountpoint })},
	{"HostConfig.Mounts.Type cluster", "1.42",
		onMount(func(m mount.Mount) bool { return m.Type == mount.TypeCluster })},
	{"HostConfig.Annotations", "1.43", onHost(func(h *container.HostConfig) bool { return len(h.Annotations) > 0 })},
	{"HostConfig.Mounts.BindOptions.ReadOnlyNonRecursive", "1.44",
		onBind(func(b *mount.BindOptions) bool { return b.ReadOnlyNonRecursive })},
	{"HostConfig.Mounts.BindOptions.ReadOnlyForceRecursive", "1.44",
		onBind(func(b *mount.BindOptions) bool { return b.ReadOnlyForceRecursive })},
	{"HostConfig.DeviceRequests of the driver cdi", "1.44", onHost(requestsCDI)},
	{"Config.Healthcheck.StartInterval", "1.44",
		onConfig(func(c *container.Config) bool { return c.Healthcheck != nil && c.Healthcheck.StartInterval != 0 })},
	{"NetworkingConfig.EndpointsConfig with several networks", "1.44", func(s ContainerSpec) bool {
		return s.Network != nil && len(s.Network.EndpointsConfig) > 1
	}},
	{"NetworkingConfig.EndpointsConfig.MacAddress", "1.44",
		onEndpoint(func(e *network.EndpointSettings) bool { return len(e.MacAddress) > 0 })},
	{"HostConfig.Mounts.VolumeOptions.Subpath", "1.45",
		onMount(func(m mount.Mount) bool { return m.VolumeOptions != nil && m.VolumeOptions.Subpath != "" })},
	{"HostConfig.Mounts.TmpfsOptions.Options", "1.46",
		onMount(func(m mount.Mount) bool { return m.TmpfsOptions != nil && len(m.TmpfsOptions.Options) > 0 })},
	{"HostConfig.Mounts.Type image", "1.48",
		onMount(func(m mount.Mount) bool { return m.Type == mount.TypeImage || m.ImageOptions != nil })},
	{"NetworkingConfig.EndpointsConfig.GwPriority", "1.48",
		onEndpoint(func(e *network.EndpointSettings) bool { return e.GwPriority != 0 })},
	{"HostConfig.Umask", "1.56", onHost(func(h *container.HostConfig) bool { return h.Umask != nil })},
}

func onConfig(used func(*container.Config) bool) func(ContainerSpec) bool {
	return func(s ContainerSpec) bool { return s.Config != nil && used(s.Config) }
}

func onHost(used func(*container.HostConfig) bool) func(ContainerSpec) bool {
	return func(s ContainerSpec) bool { return s.Host != nil && used(s.Host) }
}

func onMount(used func(mount.Mount) bool) func(ContainerSpec) bool {
	return onHost(func(h *container.HostConfig) bool { return slices.ContainsFunc(h.Mounts, used) })
}

func onBind(used func(*mount.BindOptions) bool) func(ContainerSpec) bool {
	return onMount(func(m mount.Mount) bool { return m.BindOptions != nil && used(m.BindOptions) })
}

func onEndpoint(used func(*network.EndpointSettings) bool) func(ContainerSpec) bool {
	return func(s ContainerSpec) bool {
		if s.Network == nil {
			return false
		}
		for _, endpoint := range s.Network.EndpointsConfig {
			if endpoint != nil && used(endpoint) {
				return true
			}
		}
		return false
	}
}

func requestsCDI(h *container.HostConfig) bool {
	return slices.ContainsFunc(h.DeviceRequests, func(r container.DeviceRequest) bool { return r.Driver == "cdi" })
}

// CheckSpec refuses the fields of a container that an engine with these features would ignore silently. The error is
// ErrNotImplemented and has the API version that each field needs. Engine.CreateContainer calls it.
func CheckSpec(spec ContainerSpec, features Features) error {
	if spec.Note != nil && features.OCIRuntime.Name == "" {
		return fmt.Errorf("%w: this container needs the runtime criadapter-oci, which the engine does not have",
			errdefs.ErrNotImplemented)
	}
	var missing []string
	for _, field := range newerFields {
		if !features.Supports(field.since) && field.used(spec) {
			missing = append(missing, fmt.Sprintf("%s needs API %s", field.name, field.since))
		}
	}
	return tooNew(missing, features)
}

// CheckUpdate is CheckSpec for Engine.UpdateContainer. Up to API 1.54, an update ignored the limits per block device,
// although a create applied them.
func CheckUpdate(r container.Resources, features Features) error {
	const since = "1.55"
	if features.Supports(since) {
		return nil
	}
	var missing []string
	for _, field := range []struct {
		name   string
		length int
	}{
		{"BlkioWeightDevice", len(r.BlkioWeightDevice)},
		{"BlkioDeviceReadBps", len(r.BlkioDeviceReadBps)},
		{"BlkioDeviceWriteBps", len(r.BlkioDeviceWriteBps)},
		{"BlkioDeviceReadIOps", len(r.BlkioDeviceReadIOps)},
		{"BlkioDeviceWriteIOps", len(r.BlkioDeviceWriteIOps)},
	} {
		if field.length > 0 {
			missing = append(missing, fmt.Sprintf("an update of %s needs API %s", field.name, since))
		}
	}
	return tooNew(missing, features)
}

func tooNew(missing []string, features Features) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: Docker Engine %s (API %s) is too old for this container: %s",
		errdefs.ErrNotImplemented, features.ServerVersion, features.APIVersion, strings.Join(missing, ", "))
}
