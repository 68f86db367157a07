package translate

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// cdiDriver is the engine's device driver for CDI.
const cdiDriver = "cdi"

// devices sets the container's devices. A directory of the host stands for all
// devices in it, which the engine looks up at the start.
func devices(config *runtimeapi.ContainerConfig, f docker.Features, host *container.HostConfig) error {
	for i, d := range config.GetDevices() {
		mapping, err := device(item("config.devices", i), d)
		if err != nil {
			return err
		}
		host.Devices = append(host.Devices, mapping)
	}
	return cdiDevices(config, f, host)
}

// cdiAnnotation begins the annotations that name CDI devices, separated by commas. Kubelets before 1.31 and clients
// without the field send them, and some send both.
const cdiAnnotation = "cdi.k8s.io/"

// cdiDevices sets the container's CDI devices, each once.
func cdiDevices(config *runtimeapi.ContainerConfig, f docker.Features, host *container.HostConfig) error {
	type request struct{ field, name string }
	var requests []request
	for i, d := range config.GetCDIDevices() {
		requests = append(requests, request{item("config.CDI_devices", i) + ".name", d.GetName()})
	}
	for _, key := range slices.Sorted(maps.Keys(config.GetAnnotations())) {
		if !strings.HasPrefix(key, cdiAnnotation) {
			continue
		}
		for name := range strings.SplitSeq(config.GetAnnotations()[key], ",") {
			requests = append(requests, request{"config.annotations[" + key + "]", name})
		}
	}
	var names []string
	for _, r := range requests {
		if err := checkCDIName(r.field, r.name); err != nil {
			return err
		}
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	if len(names) > 0 && !f.CDI {
		return unsupported(requests[0].field, "this engine (%s) injects no CDI devices: take Docker Engine 28.2 or newer, or 25 with features.cdi of daemon.json",
			f.ServerVersion)
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
