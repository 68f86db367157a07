package cni

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/pkg/utils"
)

// Pod is the data about one pod that the plugins get.
type Pod struct {
	// ID is the sandbox's id. It is the key of everything that is kept about the pod.
	ID string
	// Name, Namespace and UID are the pod's Kubernetes metadata.
	Name, Namespace, UID string
	// NetnsPath is the absolute path of the pod's network namespace, a file
	// that a namespace is mounted on or a path below /proc.
	NetnsPath string
	// Annotations are the pod's annotations. Plugins with the capability io.kubernetes.cri.pod-annotations get them.
	// The bandwidth limits come from kubernetes.io/ingress-bandwidth and kubernetes.io/egress-bandwidth.
	Annotations map[string]string
	// PortMappings are the container ports. The plugins get only mappings with a host port.
	PortMappings []PortMapping
	// DNS is the pod's resolver configuration.
	DNS DNS
	// CgroupPath is the pod's cgroup, empty when there is none.
	CgroupPath string
}

// PortMapping maps a port of the host to one of the pod.
type PortMapping struct {
	// HostPort is 1 to 65535, or 0 for no port on the host.
	HostPort int32
	// ContainerPort is 1 to 65535. It may be 0 if HostPort is 0.
	ContainerPort int32
	// Protocol is tcp (also when empty), udp or sctp, in upper or lower case.
	Protocol string
	// HostIP is the host's address to listen on, empty for all.
	HostIP string
}

// DNS is a resolver configuration.
type DNS struct {
	Servers, Searches, Options []string
}

const maxPort = 65535

// validateID checks the id, which every call needs. It becomes a part of file names.
func (p Pod) validateID() error {
	if err := utils.ValidateContainerID(p.ID); err != nil {
		return invalid("pod.id", "%q: %s", p.ID, err.Msg)
	}
	return nil
}

// validate checks the id, the path of the namespace, the fields that go into CNI_ARGS, and the port mappings.
func (p Pod) validate() error {
	if err := p.validateID(); err != nil {
		return err
	}
	if p.NetnsPath == "" {
		return invalid("pod.netnsPath", "missing: pin the network namespace first")
	}
	if !filepath.IsAbs(p.NetnsPath) {
		return invalid("pod.netnsPath", "%q is not an absolute path", p.NetnsPath)
	}
	for _, f := range []struct{ field, value string }{
		{"pod.name", p.Name}, {"pod.namespace", p.Namespace}, {"pod.uid", p.UID},
	} {
		// CNI_ARGS is a list of KEY=VALUE joined with ";" without any quoting.
		if strings.ContainsAny(f.value, ";=\x00") {
			return invalid(f.field, "%q must not contain ';', '=' or NUL", f.value)
		}
	}
	for i, m := range p.PortMappings {
		if err := m.validate(fmt.Sprintf("pod.portMappings[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (m PortMapping) validate(field string) error {
	if m.HostPort < 0 || m.HostPort > maxPort {
		return invalid(field+".hostPort", "%d is not in 0 to %d", m.HostPort, maxPort)
	}
	if m.ContainerPort < 0 || m.ContainerPort > maxPort || m.ContainerPort == 0 && m.HostPort != 0 {
		return invalid(field+".containerPort", "%d is not in 1 to %d", m.ContainerPort, maxPort)
	}
	switch m.protocol() {
	case "tcp", "udp", "sctp":
	default:
		return invalid(field+".protocol", "%q is none of tcp, udp, sctp", m.Protocol)
	}
	if m.HostIP != "" {
		if _, err := netip.ParseAddr(m.HostIP); err != nil {
			return invalid(field+".hostIP", "%q is not an IP address", m.HostIP)
		}
	}
	return nil
}

func (m PortMapping) protocol() string {
	return strings.ToLower(cmp.Or(m.Protocol, "tcp"))
}

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", field, fmt.Sprintf(format, args...), errdefs.ErrInvalidArgument)
}
