package model

import v1 "k8s.io/api/core/v1"

// Kind tells the containers of a pod apart.
type Kind int

// The kinds, in the order in which a pod starts them; sidecars start among the init containers.
const (
	// Init runs to its end before the next one starts.
	Init Kind = iota
	// Sidecar is an init container with restartPolicy Always: it runs as long as the pod (KEP-753).
	Sidecar
	// App is a container of spec.containers.
	App
)

// IsSidecar says whether an init container keeps running beside the others.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// InitKind is the kind of a container of spec.initContainers.
func InitKind(c *v1.Container) Kind {
	if IsSidecar(c) {
		return Sidecar
	}
	return Init
}

// EachContainer calls visit with every container of the spec and its kind, in the order in which they start.
func EachContainer(spec *v1.PodSpec, visit func(*v1.Container, Kind)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], InitKind(&spec.InitContainers[i]))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], App)
	}
}

// FindContainer returns the container of that name, and nil when the spec has none.
func FindContainer(spec *v1.PodSpec, name string) (*v1.Container, Kind) {
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return &spec.InitContainers[i], InitKind(&spec.InitContainers[i])
		}
	}
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i], App
		}
	}
	return nil, App
}
