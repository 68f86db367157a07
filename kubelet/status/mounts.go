package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// volumeMounts are the statuses of a container's volume mounts (KEP-3857, KEP-5365). observed is nil for a container
// that the runtime does not list.
func volumeMounts(c *v1.Container, observed *model.ContainerStatus) []v1.VolumeMountStatus {
	var list []v1.VolumeMountStatus
	for _, mount := range c.VolumeMounts {
		status := v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			status.RecursiveReadOnly = recursiveReadOnly(mount, observed)
		}
		if observed != nil {
			if ref := observed.Mounts[mount.MountPath].ImageRef; ref != "" {
				status.VolumeStatus = &v1.VolumeStatus{Image: &v1.ImageVolumeStatus{ImageRef: ref}}
			}
		}
		list = append(list, status)
	}
	return list
}

// recursiveReadOnly is the mode of a read-only mount. It is nil for IfPossible while the runtime does not list the
// container.
func recursiveReadOnly(mount v1.VolumeMount, observed *model.ContainerStatus) *v1.RecursiveReadOnlyMode {
	enabled := mount.RecursiveReadOnly != nil && *mount.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled
	if mount.RecursiveReadOnly != nil && *mount.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible {
		if observed == nil {
			return nil
		}
		enabled = observed.Mounts[mount.MountPath].RecursiveReadOnly
	}
	if enabled {
		return new(v1.RecursiveReadOnlyEnabled)
	}
	return new(v1.RecursiveReadOnlyDisabled)
}
