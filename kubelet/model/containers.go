package model

import v1 "k8s.io/api/core/v1"

// Kind distinguishes the containers of a pod.
type Kind int

// The kinds, in the order in which a pod starts them; sidecars start among the init containers.
const (
	// Init runs to its end before the next one starts.
	Init Kind = iota
	// Sidecar is an init container with restartPolicy Always: it runs as long as the pod (KEP-753).
	Sidecar
	// App is a container of spec.containers.
	App
	// Ephemeral joins a pod that runs, for debugging, and never starts again (KEP-277).
	Ephemeral
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

// AsContainer is an ephemeral container without its target. Both share their memory.
func AsContainer(c *v1.EphemeralContainer) *v1.Container {
	return (*v1.Container)(&c.EphemeralContainerCommon)
}

// EachContainer calls visit with every container of the spec and its kind, in the order in which they start.
func EachContainer(spec *v1.PodSpec, visit func(*v1.Container, Kind)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], InitKind(&spec.InitContainers[i]))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], App)
	}
	for i := range spec.EphemeralContainers {
		visit(AsContainer(&spec.EphemeralContainers[i]), Ephemeral)
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
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return AsContainer(&spec.EphemeralContainers[i]), Ephemeral
		}
	}
	return nil, App
}
