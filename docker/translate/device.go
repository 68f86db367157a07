package translate

import (
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// devices sets the container's devices. A directory of the host stands for all devices in it. The engine looks them up
// at the start.
func devices(config *runtimeapi.ContainerConfig, host *container.HostConfig) error {
	for i, d := range config.GetDevices() {
		mapping, err := device(item("config.devices", i), d)
		if err != nil {
			return err
		}
		host.Devices = append(host.Devices, mapping)
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
