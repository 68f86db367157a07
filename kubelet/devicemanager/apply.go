package devicemanager

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Apply adds the devices of a container to its configuration. It calls plugins and waits for their answers. If a plugin
// fails, or too few devices are free, the error names the resource. Apply may be repeated after any error.
func (m *Manager) Apply(ctx context.Context, pod *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		count := c.Resources.Limits[name]
		r := request{pod: pod, container: c, resource: name, count: int(count.Value())}
		if !model.IsExtended(name) || r.count == 0 || !m.wanted(r, model.IsStatic(pod)) {
			continue
		}
		p, response, devices, err := m.grant(ctx, r)
		if err != nil {
			return err
		}
		if err := p.preStart(ctx, devices); err != nil {
			return err
		}
		merge(config, response)
	}
	return nil
}

// merge adds a plugin's response. The pod's own variables and annotations take precedence.
func merge(config *runtimeapi.ContainerConfig, response *pluginapi.ContainerAllocateResponse) {
	var envs []*runtimeapi.KeyValue
	for _, key := range slices.Sorted(maps.Keys(response.GetEnvs())) {
		envs = append(envs, &runtimeapi.KeyValue{Key: key, Value: []byte(response.GetEnvs()[key])})
	}
	config.Envs = append(envs, config.GetEnvs()...)
	for _, mount := range response.GetMounts() {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{ContainerPath: mount.GetContainerPath(),
			HostPath: mount.GetHostPath(), Readonly: mount.GetReadOnly()})
	}
	for _, device := range response.GetDevices() {
		config.Devices = append(config.Devices, &runtimeapi.Device{ContainerPath: device.GetContainerPath(),
			HostPath: device.GetHostPath(), Permissions: device.GetPermissions()})
	}
	for _, device := range response.GetCdiDevices() {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: device.GetName()})
	}
	for key, value := range response.GetAnnotations() {
		if _, own := config.GetAnnotations()[key]; !own {
			config.Annotations[key] = value
		}
	}
}

// pluginError names the plugin of a failed call.
func pluginError(name v1.ResourceName, call string, err error) error {
	return fmt.Errorf("resources.limits[%s]: the device plugin's %s failed: %w", name, call, err)
}
