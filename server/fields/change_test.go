package fields

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// change makes a valid request into the request of one case.
type change func(*request)

func dns(config *runtimeapi.DNSConfig) change {
	return func(r *request) { r.pod.DnsConfig = config }
}

func ports(mappings ...*runtimeapi.PortMapping) change {
	return func(r *request) { r.pod.PortMappings = mappings }
}

func sysctl(name, value string) change {
	return func(r *request) { r.pod.Linux.Sysctls = map[string]string{name: value} }
}

func podNS(options *runtimeapi.NamespaceOption) change {
	return podSC(&runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: options})
}

func podSC(sc *runtimeapi.LinuxSandboxSecurityContext) change {
	return func(r *request) { r.pod.Linux.SecurityContext = sc }
}

func logPathOf(name string) change {
	return func(r *request) { r.container.LogPath = name }
}

func envs(list ...*runtimeapi.KeyValue) change {
	return func(r *request) { r.container.Envs = list }
}

func mountsOf(list ...*runtimeapi.Mount) change {
	return func(r *request) { r.container.Mounts = list }
}

func devicesOf(list ...*runtimeapi.Device) change {
	return func(r *request) { r.container.Devices = list }
}

func withCDI(names ...string) change {
	return func(r *request) {
		for _, name := range names {
			r.container.CDIDevices = append(r.container.CDIDevices, &runtimeapi.CDIDevice{Name: name})
		}
	}
}

func cdiAnnotations(key, names string) change {
	return func(r *request) { r.container.Annotations = map[string]string{"cdi.k8s.io/" + key: names} }
}

func containerNS(options *runtimeapi.NamespaceOption) change {
	return containerSC(&runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: options})
}

func containerSC(sc *runtimeapi.LinuxContainerSecurityContext) change {
	return func(r *request) { r.container.Linux.SecurityContext = sc }
}

func limits(resources *runtimeapi.LinuxContainerResources) change {
	return func(r *request) { r.container.Linux.Resources = resources }
}

func seccompContent(content string, err error) change {
	return func(r *request) {
		r.read = func(string) ([]byte, error) { return []byte(content), err }
		r.security().Seccomp = localhostAt("/p.json")
	}
}
