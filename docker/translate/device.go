package translate

import (
	"path"
	"strings"

	"github.com/criadapter/criadapter/docker"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// apiCDI is the API version since which the engine knows CDI devices.
const apiCDI = "1.44"

// cdiDriver is the engine's device driver for CDI.
const cdiDriver = "cdi"

// devices sets the container's devices. A folder of the host stands for all
// devices in it, which the engine looks up at the start.
func devices(config *runtimeapi.ContainerConfig, f docker.Features, host *container.HostConfig) error {
	for i, d := range config.GetDevices() {
		mapping, err := device(item("config.devices", i), d)
		if err != nil {
			return err
		}
		host.Devices = append(host.Devices, mapping)
	}
	var names []string
	for i, d := range config.GetCDIDevices() {
		field := item("config.CDI_devices", i) + ".name"
		if err := checkCDIName(field, d.GetName()); err != nil {
			return err
		}
		if !f.Supports(apiCDI) {
			return unsupported(field, "CDI devices need Docker Engine 25 or newer (API %s), this is %s (API %s)",
				apiCDI, f.ServerVersion, f.APIVersion)
		}
		names = append(names, d.GetName())
	}
	if len(names) > 0 {
		host.DeviceRequests = []container.DeviceRequest{{Driver: cdiDriver, DeviceIDs: names}}
	}
	return nil
}

func device(field string, d *runtimeapi.Device) (container.DeviceMapping, error) {
	if d == nil {
		return container.DeviceMapping{}, invalid(field, "is missing")
	}
	source, err := absolutePath(field+".host_path", d.GetHostPath())
	if err != nil {
		return container.DeviceMapping{}, err
	}
	target, err := absolutePath(field+".container_path", d.GetContainerPath())
	if err != nil {
		return container.DeviceMapping{}, err
	}
	if p := d.GetPermissions(); p == "" || strings.Trim(p, "rwm") != "" {
		return container.DeviceMapping{}, invalid(field+".permissions", "%q is not made of r, w and m", p)
	}
	return container.DeviceMapping{
		PathOnHost:        source,
		PathInContainer:   target,
		CgroupPermissions: d.GetPermissions(),
	}, nil
}

// checkCDIName accepts vendor/class=name.
func checkCDIName(field, name string) error {
	kind, id, ok := strings.Cut(name, "=")
	if !ok || id == "" || path.Dir(kind) == "." || path.Base(kind) == "." || strings.HasSuffix(kind, "/") {
		return invalid(field, "%q is not a CDI device, vendor/class=name", name)
	}
	return checkText(field, name)
}
