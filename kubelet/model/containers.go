package model

import v1 "k8s.io/api/core/v1"

// Kind is the kind of a container in its pod.
type Kind int

// The kinds in the order of their start. Sidecars start among the init containers.
const (
	// Init ends before the next container starts.
	Init Kind = iota
	// Sidecar is an init container with restartPolicy Always: it runs as long as the pod (KEP-753).
	Sidecar
	// App is a container of spec.containers.
	App
	// Ephemeral joins a running pod for debugging, and never restarts (KEP-277).
	Ephemeral
)

// IsSidecar reports whether an init container keeps running beside the others.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// InitKind returns the kind of a container of spec.initContainers.
func InitKind(c *v1.Container) Kind {
	if IsSidecar(c) {
		return Sidecar
	}
	return Init
}

// AsContainer returns an ephemeral container without its target. The result shares memory with c.
func AsContainer(c *v1.EphemeralContainer) *v1.Container {
	return (*v1.Container)(&c.EphemeralContainerCommon)
}

// EachContainer calls visit with every container of the spec and its kind, in the order of their start.
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

// FindContainer returns the container of that name, or nil.
func FindContainer(spec *v1.PodSpec, name string) (found *v1.Container, kind Kind) {
	kind = App
	EachContainer(spec, func(c *v1.Container, of Kind) {
		if found == nil && c.Name == name {
			found, kind = c, of
		}
	})
	return found, kind
}
