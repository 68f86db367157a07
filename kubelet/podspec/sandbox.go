package podspec

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Sandbox returns the configuration of the pod's sandbox. It depends only on the pod, the attempt and the host's
// resolv.conf. So it can be generated again for later CreateContainer calls.
func (g *Generator) Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	dns, err := g.dns(pod)
	if err != nil {
		return nil, err
	}
	linux := g.linuxSandbox(pod)
	if linux.SecurityContext.NamespaceOptions.UsernsOptions, err = g.userNamespace(ctx, pod); err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID),
			Attempt: attempt},
		LogDirectory: model.PodLogDirectory(g.opts.PodLogsDir, pod),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       g.podLabels(pod),
		Annotations:  maps.Clone(pod.Annotations),
		Linux:        linux,
	}
	if !pod.Spec.HostNetwork {
		name, err := g.hostName(pod)
		if err != nil {
			return nil, err
		}
		config.Hostname = name.kernel
	}
	return config, nil
}

func (g *Generator) podLabels(pod *v1.Pod) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, pod.Labels)
	maps.Copy(labels, g.identity(pod))
	return labels
}

// identity returns the labels by which sandboxes and containers are found.
func (g *Generator) identity(pod *v1.Pod) map[string]string {
	return map[string]string{
		model.LabelPodName: pod.Name, model.LabelPodNamespace: pod.Namespace, model.LabelPodUID: string(pod.UID),
		model.LabelOwner: g.opts.Owner,
	}
}

// portMappings returns the ports of all containers that run as long as the pod.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	model.EachContainer(&pod.Spec, func(c *v1.Container, kind model.Kind) {
		if kind == model.Init {
			return
		}
		for _, port := range c.Ports {
			mappings = append(mappings, &runtimeapi.PortMapping{
				Protocol: protocol(port.Protocol), ContainerPort: port.ContainerPort, HostPort: port.HostPort,
				HostIp: port.HostIP,
			})
		}
	})
	return mappings
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}

func (g *Generator) linuxSandbox(pod *v1.Pod) *runtimeapi.LinuxPodSandboxConfig {
	linux := &runtimeapi.LinuxPodSandboxConfig{SecurityContext: sandboxSecurity(pod), Sysctls: sysctls(pod)}
	linux.Overhead, linux.Resources = g.PodResources(pod)
	if g.opts.Cgroups != nil {
		linux.CgroupParent = g.opts.Cgroups.Parent(pod)
	}
	return linux
}

// sandboxSecurity returns the security context of the sandbox's own process.
func sandboxSecurity(pod *v1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
	own := podSecurity(pod)
	return &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(&pod.Spec),
		Privileged:       privileged(pod),
		// The sandbox's process works under the runtime's profile, whatever the containers need.
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SelinuxOptions:           selinux(own.SELinuxOptions),
		RunAsUser:                int64Value(own.RunAsUser),
		RunAsGroup:               int64Value(own.RunAsGroup),
		SupplementalGroups:       supplementalGroups(own),
		SupplementalGroupsPolicy: groupsPolicy(own),
	}
}

// privileged reports whether any container of the pod is privileged. CRI requires a privileged sandbox for a privileged
// container.
func privileged(pod *v1.Pod) bool {
	found := false
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
		found = found || isTrue(containerSecurity(c).Privileged)
	})
	return found
}

// namespaces returns the namespaces that the pod's containers share with each other and with the host.
func namespaces(spec *v1.PodSpec) *runtimeapi.NamespaceOption {
	options := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD, Ipc: runtimeapi.NamespaceMode_POD,
		Pid: runtimeapi.NamespaceMode_CONTAINER,
	}
	if spec.HostNetwork {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	if spec.HostIPC {
		options.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case spec.HostPID:
		options.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(spec.ShareProcessNamespace):
		options.Pid = runtimeapi.NamespaceMode_POD
	}
	return options
}

func isTrue(value *bool) bool { return value != nil && *value }

func int64Value(value *int64) *runtimeapi.Int64Value {
	if value == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *value}
}

// supplementalGroups returns the pod's groups except the primary one. The first is the group of its volumes.
func supplementalGroups(sc *v1.PodSecurityContext) []int64 {
	var groups []int64
	if sc.FSGroup != nil {
		groups = append(groups, *sc.FSGroup)
	}
	return append(groups, sc.SupplementalGroups...)
}

// groupsPolicy returns the policy for groups of the image's /etc/group (KEP-3619).
func groupsPolicy(sc *v1.PodSecurityContext) runtimeapi.SupplementalGroupsPolicy {
	if sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

func selinux(options *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if options == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: options.User, Role: options.Role, Type: options.Type, Level: options.Level}
}

// sysctls returns the sysctls by name with dots. Admission has checked them.
func sysctls(pod *v1.Pod) map[string]string {
	own := podSecurity(pod).Sysctls
	if len(own) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, one := range own {
		values[sysctl.NormalizeName(one.Name)] = one.Value
	}
	return values
}
