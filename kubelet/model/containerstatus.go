package model

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Statuses returns the statuses of all containers of the pod, in the order of their start.
func Statuses(pod *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses)
}

// FindStatus returns the status of the pod's container of that name, or nil.
func FindStatus(pod *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.InitContainerStatuses, pod.ContainerStatuses,
		pod.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// RuntimeID returns the runtime's id from a status's container id, which has the form name://id. It returns "" if ://
// is missing.
func RuntimeID(id string) string {
	_, bare, _ := strings.Cut(id, "://")
	return bare
}
