package model

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Statuses are those of all containers of the pod, in the order in which they start.
func Statuses(pod *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// FindStatus returns the status of the container of that name, and nil when there is none yet.
func FindStatus(pod *v1.Pod, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// RuntimeID is a container's id in a status, name://id, as the runtime knows it; empty if there is none.
func RuntimeID(id string) string {
	_, bare, _ := strings.Cut(id, "://")
	return bare
}
