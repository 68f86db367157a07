package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	v1 "k8s.io/api/core/v1"
)

// network leaves out the container's network settings that no pod can have.
func (p *pod) network(name string, host *container.HostConfig) {
	mode := host.NetworkMode
	p.leave(mode.IsNone(), name, "the network none: a pod is in the network of the container runtime")
	p.leave(mode.IsUserDefined(), name, "the network %s: a pod is in the network of the container runtime", mode)
	p.leave(mode.IsContainer(), name, "the network of another container: generate both into one pod")
	p.leave(len(host.Links) > 0, name, "links: containers of a pod are at localhost")
	p.leave(host.PublishAllPorts, name, "all ports published at random: play has --publish-all")
}

// dns returns the pod's DNS policy and configuration. They are empty and nil for a container without DNS settings.
func dns(host *container.HostConfig) (v1.DNSPolicy, *v1.PodDNSConfig) {
	config := &v1.PodDNSConfig{Searches: host.DNSSearch}
	for _, server := range host.DNS {
		config.Nameservers = append(config.Nameservers, server.String())
	}
	for _, option := range host.DNSOptions {
		name, value, ok := strings.Cut(option, ":")
		added := v1.PodDNSConfigOption{Name: name}
		if ok {
			added.Value = &value
		}
		config.Options = append(config.Options, added)
	}
	switch {
	case len(config.Nameservers) > 0:
		return v1.DNSNone, config
	case len(config.Searches)+len(config.Options) > 0:
		return v1.DNSDefault, config
	default:
		return "", nil
	}
}

// aliases adds the extra lines of the hosts file.
func (p *pod) aliases(name string, extra []string) {
	for _, line := range extra {
		host, address, ok := strings.Cut(line, ":")
		if !ok || address == "host-gateway" {
			p.leave(true, name, "the host %s: it has no address outside the engine", line)
			continue
		}
		p.Spec.HostAliases = append(p.Spec.HostAliases, v1.HostAlias{IP: strings.Trim(address, "[]"),
			Hostnames: []string{host}})
	}
}

// sysctls adds the sysctls of a container. If two containers set the same sysctl, the first container decides.
func (p *pod) sysctls(container string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	context := p.securityContext()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(context.Sysctls, func(s v1.Sysctl) bool { return s.Name == name })
		if i < 0 {
			context.Sysctls = append(context.Sysctls, v1.Sysctl{Name: name, Value: values[name]})
			continue
		}
		p.leave(context.Sysctls[i].Value != values[name], container, "the sysctl %s=%s: the pod's is %s", name,
			values[name], context.Sysctls[i].Value)
	}
}

func (p *pod) securityContext() *v1.PodSecurityContext {
	p.Spec.SecurityContext = cmp.Or(p.Spec.SecurityContext, &v1.PodSecurityContext{})
	return p.Spec.SecurityContext
}

// ports returns the published ports of a container.
func (p *pod) ports(name string, bindings network.PortMap) []v1.ContainerPort {
	var ports []v1.ContainerPort
	sorted := slices.SortedFunc(maps.Keys(bindings), func(a, b network.Port) int {
		return strings.Compare(fmt.Sprintf("%05d/%s", a.Num(), a.Proto()), fmt.Sprintf("%05d/%s", b.Num(), b.Proto()))
	})
	for _, port := range sorted {
		for _, binding := range bindings[port] {
			if binding.HostPort == "" || binding.HostPort == "0" {
				p.leave(true, name, "the random port for %s: name one with play --publish", port)
				continue
			}
			number, err := strconv.ParseUint(binding.HostPort, 10, 16)
			if err != nil {
				p.leave(true, name, "the ports %s for %s: a pod takes one port of the machine for each container port",
					binding.HostPort, port)
				continue
			}
			added := v1.ContainerPort{ContainerPort: int32(port.Num()), HostPort: int32(number),
				Protocol: v1.Protocol(strings.ToUpper(string(port.Proto())))}
			if binding.HostIP.IsValid() && !binding.HostIP.IsUnspecified() {
				added.HostIP = binding.HostIP.String()
			}
			if !slices.Contains(ports, added) { // the engine has a binding for IPv4 and one for IPv6
				ports = append(ports, added)
			}
		}
	}
	return ports
}
