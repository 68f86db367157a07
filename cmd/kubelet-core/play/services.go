package play

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/criadapter/criadapter/kubelet/model"
)

// publishService gives the host ports of a service of type NodePort or LoadBalancer to its first pod. There is no
// proxy, so one host port leads to one pod. A service's name (see hostsLines) leads to its pods' own ports.
func (s *Set) publishService(service *v1.Service) error {
	if service.Spec.Type == v1.ServiceTypeExternalName || len(service.Spec.Selector) == 0 {
		return fmt.Errorf("spec.selector: play takes services that select pods: %w", errdefs.ErrInvalidArgument)
	}
	pods := selected(service, s.pods)
	if len(pods) == 0 {
		return fmt.Errorf("spec.selector: it selects none of the pods: %w", errdefs.ErrInvalidArgument)
	}
	for i, port := range service.Spec.Ports {
		port.Protocol = cmp.Or(port.Protocol, v1.ProtocolTCP)
		container, target, err := targetPort(pods[0], port)
		if err != nil {
			return fmt.Errorf("spec.ports[%d].targetPort: %w", i, err)
		}
		host := hostPort(service, port)
		if host == 0 {
			if target != port.Port {
				s.note("service %s: clients use the port %d of its pods, not %d: there is no proxy", service.Name,
					target, port.Port)
			}
			continue
		}
		expose(container, target, host, port.Protocol)
		s.note("service %s: port %d of this machine leads to %s", service.Name, host, pods[0].Name)
		if len(pods) > 1 {
			s.note("service %s: the port does not lead to the other %d of its pods, but the service's name does",
				service.Name, len(pods)-1)
		}
	}
	return nil
}

func (s *Set) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// selected returns the pods that a service selects.
func selected(service *v1.Service, pods []*v1.Pod) []*v1.Pod {
	selector := labels.SelectorFromSet(service.Spec.Selector)
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		return pod.Namespace != namespaceOf(service) || !selector.Matches(labels.Set(pod.Labels))
	})
}

func namespaceOf(object metav1.Object) string {
	return cmp.Or(object.GetNamespace(), v1.NamespaceDefault)
}

// hostPort is the port of the machine for a port of a service, 0 for none.
func hostPort(service *v1.Service, port v1.ServicePort) int32 {
	switch {
	case service.Spec.Type != v1.ServiceTypeNodePort && service.Spec.Type != v1.ServiceTypeLoadBalancer:
		return 0
	case port.NodePort != 0:
		return port.NodePort
	default:
		return port.Port
	}
}

// targetPort returns the container and the number of a service's target port. It returns the first container if none
// has a port of that number and protocol.
func targetPort(pod *v1.Pod, port v1.ServicePort) (*v1.Container, int32, error) {
	target := cmp.Or(port.TargetPort, intstr.FromInt32(port.Port))
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		for _, known := range c.Ports {
			if known.Protocol == port.Protocol && (target.Type == intstr.String && known.Name == target.StrVal ||
				target.Type == intstr.Int && known.ContainerPort == target.IntVal) {
				return c, known.ContainerPort, nil
			}
		}
	}
	if target.Type == intstr.String {
		return nil, 0, fmt.Errorf("no %s port of pod %s has the name %q: %w", port.Protocol, pod.Name, target.StrVal,
			errdefs.ErrInvalidArgument)
	}
	return &pod.Spec.Containers[0], target.IntVal, nil
}

// expose publishes a container's port on a port of the machine, unless the container publishes it there itself.
func expose(c *v1.Container, target, host int32, protocol v1.Protocol) {
	var free *v1.ContainerPort
	for i := range c.Ports {
		switch port := &c.Ports[i]; {
		case port.ContainerPort != target || port.Protocol != protocol:
		case port.HostPort == host && port.HostIP == "":
			return
		case port.HostPort == 0 && free == nil:
			free = port
		}
	}
	if free != nil {
		free.HostPort = host
		return
	}
	c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: target, HostPort: host, Protocol: protocol})
}

// hostsLines returns the lines of hosts files that resolve the names of services to their ready pods, and the names of
// pods to their addresses. A pod with the name of a service has no line of its own.
func hostsLines(services []*v1.Service, pods []*v1.Pod) []string {
	var lines []string
	for _, service := range services {
		namespace := namespaceOf(service)
		for _, pod := range selected(service, pods) {
			if pod.Status.PodIP != "" && ready(pod) {
				names := []string{service.Name, service.Name + "." + namespace, service.Name + "." + namespace + ".svc"}
				lines = append(lines, pod.Status.PodIP+"\t"+strings.Join(names, "\t"))
			}
		}
	}
	for _, pod := range pods {
		taken := slices.ContainsFunc(services, func(s *v1.Service) bool { return s.Name == podName(pod) })
		if pod.Status.PodIP != "" && !model.Terminal(pod.Status.Phase) && !taken {
			lines = append(lines, pod.Status.PodIP+"\t"+podName(pod))
		}
	}
	return lines
}

func ready(pod *v1.Pod) bool {
	return model.Ready(pod) && !model.Terminal(pod.Status.Phase)
}
