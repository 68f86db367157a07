package play

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/go-connections/nat"
	v1 "k8s.io/api/core/v1"
)

// adapt sets the network and the annotations of the pods.
func (i *Input) adapt(pods []*v1.Pod) error {
	if i.Network != "" && i.Network != "bridge" && i.Network != "host" {
		return fmt.Errorf("--network: it is %q, want bridge or host; the networks of the container runtime are "+
			"configured in its CNI directory: %w", i.Network, errdefs.ErrInvalidArgument)
	}
	for _, pod := range pods {
		if i.Network != "" {
			pod.Spec.HostNetwork = i.Network == "host"
		}
		if len(i.Annotations) > 0 {
			annotations := map[string]string{} // a copy, because the pods of a deployment share one map
			maps.Copy(annotations, pod.Annotations)
			maps.Copy(annotations, i.Annotations)
			pod.Annotations = annotations
		}
	}
	return nil
}

// portKey is a port's number and protocol.
type portKey struct {
	number   int32
	protocol v1.Protocol
}

// publish gives ports of the machine to containers. A port leads to the first container that has the container port, or
// else to the first container of the first pod. The first mapping of a container port replaces the host port of the
// files, and further mappings are added.
func (i *Input) publish(s *Set) error {
	given := map[portKey]bool{} // the container ports that have a mapping on the command line
	for _, text := range i.Publish {
		mappings, err := nat.ParsePortSpec(text)
		if err != nil {
			return fmt.Errorf("--publish %s: %w: %w", text, err, errdefs.ErrInvalidArgument)
		}
		for _, mapping := range mappings {
			port, err := publishedPort(mapping)
			if err != nil {
				return fmt.Errorf("--publish %s: %w", text, err)
			}
			key := portKey{port.ContainerPort, port.Protocol}
			s.publishPort(port, given[key])
			given[key] = true
		}
	}
	if i.PublishAll {
		s.publishAll()
	}
	return nil
}

// publishedPort reads a mapping. A mapping without a port of the machine uses the same number as the container port.
func publishedPort(mapping nat.PortMapping) (v1.ContainerPort, error) {
	port := v1.ContainerPort{ContainerPort: int32(mapping.Port.Int()), HostIP: mapping.Binding.HostIP,
		Protocol: v1.Protocol(strings.ToUpper(mapping.Port.Proto()))}
	port.HostPort = port.ContainerPort
	if text := mapping.Binding.HostPort; text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return port, fmt.Errorf("%q: play takes one port of the machine for one port of a container: %w", text,
				errdefs.ErrInvalidArgument)
		}
		port.HostPort = int32(number)
	}
	if port.HostPort == 0 {
		return port, fmt.Errorf("play takes no random port of the machine: %w", errdefs.ErrInvalidArgument)
	}
	return port, nil
}

// publishPort publishes a port. With add, an earlier mapping of the container port stays.
func (s *Set) publishPort(wanted v1.ContainerPort, add bool) {
	pod, container, i := s.find(wanted)
	if i < 0 || add {
		container.Ports = append(container.Ports, wanted)
	} else {
		port := &container.Ports[i]
		port.HostPort, port.HostIP = wanted.HostPort, wanted.HostIP
	}
	s.notePort(pod, &wanted)
}

// find returns the first container that has a container port, and the index of the port. Without one it returns the
// first container of the first pod, and -1.
func (s *Set) find(wanted v1.ContainerPort) (*v1.Pod, *v1.Container, int) {
	for _, pod := range s.pods {
		for i := range pod.Spec.Containers {
			container := &pod.Spec.Containers[i]
			j := slices.IndexFunc(container.Ports, func(port v1.ContainerPort) bool {
				return port.ContainerPort == wanted.ContainerPort && port.Protocol == wanted.Protocol
			})
			if j >= 0 {
				return pod, container, j
			}
		}
	}
	return s.pods[0], &s.pods[0].Spec.Containers[0], -1
}

func (s *Set) notePort(pod *v1.Pod, port *v1.ContainerPort) {
	s.note("port %d of this machine leads to %s", port.HostPort, pod.Name)
}

// ports iterates over the ports of all containers. The caller may change them.
func (s *Set) ports() iter.Seq2[*v1.Pod, *v1.ContainerPort] {
	return func(yield func(*v1.Pod, *v1.ContainerPort) bool) {
		for _, pod := range s.pods {
			for i := range pod.Spec.Containers {
				ports := pod.Spec.Containers[i].Ports
				for j := range ports {
					if !yield(pod, &ports[j]) {
						return
					}
				}
			}
		}
	}
}

// publishAll publishes each unpublished port of a container on the same port of the machine. If several pods have the
// port, the first one gets it.
func (s *Set) publishAll() {
	taken := map[portKey]bool{}
	for _, port := range s.ports() {
		taken[portKey{port.HostPort, port.Protocol}] = true
	}
	for pod, port := range s.ports() {
		if port.HostPort != 0 {
			continue
		}
		key := portKey{port.ContainerPort, port.Protocol}
		if taken[key] {
			s.note("port %d of %s is not published: port %d of this machine is taken", port.ContainerPort, pod.Name,
				port.ContainerPort)
			continue
		}
		taken[key] = true
		port.HostPort = port.ContainerPort
		s.notePort(pod, port)
	}
}
