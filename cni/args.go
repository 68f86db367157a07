package cni

import (
	"slices"

	"github.com/containernetworking/cni/libcni"
)

// Capabilities that a plugin may ask for, with the keys of the CNI conventions (CONVENTIONS.md of
// containernetworking/cni) and, for the annotations, of containerd and CRI-O.
const (
	capPortMappings = "portMappings"
	capDNS          = "dns"
	capBandwidth    = "bandwidth"
	capCgroupPath   = "cgroupPath"
	capAnnotations  = "io.kubernetes.cri.pod-annotations"
)

type portMappingArg struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

type dnsArg struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// runtimeConf turns the pod into libcni's arguments. It fails with errdefs.ErrInvalidArgument naming the field.
func (p Pod) runtimeConf() (*libcni.RuntimeConf, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	capabilities, err := p.capabilityArgs()
	if err != nil {
		return nil, err
	}
	return &libcni.RuntimeConf{
		ContainerID:    p.ID,
		NetNS:          p.NetnsPath,
		IfName:         interfaceName,
		Args:           p.cniArgs(),
		CapabilityArgs: capabilities,
	}, nil
}

// cniArgs returns the content of CNI_ARGS. With IgnoreUnknown, plugins accept keys that they do not know.
func (p Pod) cniArgs() [][2]string {
	return [][2]string{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", p.Namespace},
		{"K8S_POD_NAME", p.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", p.ID},
		{"K8S_POD_UID", p.UID},
	}
}

// capabilityArgs returns the values of all capabilities. libcni gives each plugin only the capabilities that its
// configuration declares. Empty values are left out, as if the pod did not need the capability.
func (p Pod) capabilityArgs() (map[string]any, error) {
	args := map[string]any{}
	if ports := p.portMappingArgs(); len(ports) > 0 {
		args[capPortMappings] = ports
	}
	if len(p.DNS.Servers)+len(p.DNS.Searches)+len(p.DNS.Options) > 0 {
		args[capDNS] = dnsArg(p.DNS)
	}
	if len(p.Annotations) > 0 {
		args[capAnnotations] = p.Annotations
	}
	if p.CgroupPath != "" {
		args[capCgroupPath] = p.CgroupPath
	}
	bandwidth, err := bandwidthArgs(p.Annotations)
	if err != nil {
		return nil, err
	}
	if bandwidth != nil {
		args[capBandwidth] = bandwidth
	}
	return args, nil
}

// unserved returns the capabilities for a pod's traffic that the pod needs and no plugin of the network declares. An
// add-on may serve them by itself, as Cilium does.
func unserved(list *libcni.NetworkConfigList, args map[string]any) []string {
	return slices.DeleteFunc([]string{capPortMappings, capBandwidth}, func(name string) bool {
		return args[name] == nil || slices.ContainsFunc(list.Plugins, func(plugin *libcni.PluginConfig) bool {
			return plugin.Network.Capabilities[name]
		})
	})
}

func (p Pod) portMappingArgs() []portMappingArg {
	var args []portMappingArg
	for _, m := range p.PortMappings {
		if m.HostPort == 0 {
			continue
		}
		args = append(args, portMappingArg{
			HostPort:      m.HostPort,
			ContainerPort: m.ContainerPort,
			Protocol:      m.protocol(),
			HostIP:        m.HostIP,
		})
	}
	return args
}
