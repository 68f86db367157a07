package admission

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// anyAddress are the values of hostIP that mean all addresses.
var anyAddress = []string{"", "0.0.0.0", "::"}

// checkPorts rejects a pod if another pod has one of its host ports.
func checkPorts(in *input) *Rejection {
	wanted := hostPorts(in.Pod)
	if len(wanted) == 0 {
		return nil
	}
	for _, other := range in.others() {
		for _, taken := range hostPorts(other) {
			for _, port := range wanted {
				if collide(port, taken) {
					return predicate(reasonNodePorts,
						"node(s) didn't have free ports for the requested pod ports: %s/%s:%d is pod %s/%s's",
						protocol(port), port.HostIP, port.HostPort, other.Namespace, other.Name)
				}
			}
		}
	}
	return nil
}

// hostPorts returns the pod's host ports. Init containers do not count, because they end. For a pod in the host's
// network, the defaults have set each port's hostPort.
func hostPorts(pod *v1.Pod) []v1.ContainerPort {
	var ports []v1.ContainerPort
	model.EachContainer(&pod.Spec, func(c *v1.Container, kind model.Kind) {
		if kind == model.Init {
			return
		}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				ports = append(ports, port)
			}
		}
	})
	return ports
}

func collide(a, b v1.ContainerPort) bool {
	return a.HostPort == b.HostPort && protocol(a) == protocol(b) &&
		(a.HostIP == b.HostIP || slices.Contains(anyAddress, a.HostIP) || slices.Contains(anyAddress, b.HostIP))
}

func protocol(port v1.ContainerPort) v1.Protocol { return cmp.Or(port.Protocol, v1.ProtocolTCP) }
