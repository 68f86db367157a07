package fields

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podRows are the fields of a pod's configuration.
func podRows() []row {
	return []row{
		{
			fields: of("PodSandboxMetadata", "name", "uid", "namespace", "attempt"),
			says: "They name the sandbox container, if the pod has one, as in dockershim. A second pod with the " +
				"same metadata is refused.",
			seen: []string{"test/e2e.TestCrictlPod", kindsTest + "/difficult names"},
		},
		{
			fields: of("PodSandboxConfig", "metadata", "linux", "dns_config", "port_mappings"),
			says:   leads,
			pods: []refusal{
				{"empty config", invalid, "config.metadata",
					func(r *request) { r.pod = &runtimeapi.PodSandboxConfig{} }},
				{"no metadata", invalid, "config.metadata", func(r *request) { r.pod.Metadata = nil }},
				{"no port mapping", invalid, "config.port_mappings[1]",
					ports(&runtimeapi.PortMapping{ContainerPort: 80}, nil)},
			},
		},
		{
			fields: of("PodSandboxConfig", "hostname"),
			says: "It is the host name of the pod's containers. On the host's network they have the node's host " +
				"name.",
			seen: []string{podFields + "/names and DNS", kindsTest + "/sysctls and a host name"},
			pods: []refusal{
				{"long host name", invalid, "config.hostname", func(r *request) {
					r.pod.Hostname = strings.Repeat("a.", 32) + "a"
				}},
				{"long label in the host name", invalid, "config.hostname", func(r *request) {
					r.pod.Hostname = strings.Repeat("a", 64)
				}},
				{"host name with a space", invalid, "config.hostname", func(r *request) { r.pod.Hostname = "a b" }},
				{"host name with a line break", invalid, "config.hostname",
					func(r *request) { r.pod.Hostname = "a\n1.2.3.4 b" }},
				{"host name that begins with a hyphen", invalid, "config.hostname",
					func(r *request) { r.pod.Hostname = "-a" }},
				{"host name with an empty label", invalid, "config.hostname",
					func(r *request) { r.pod.Hostname = "a..b" }},
				{"bad host name on the host's network", invalid, "config.hostname", func(r *request) {
					r.pod.Hostname, r.podSecurity().NamespaceOptions.Network = "a b", runtimeapi.NamespaceMode_NODE
				}},
			},
		},
		{
			fields: of("PodSandboxConfig", "log_directory"),
			says:   "Container logs are written below it; criadapter creates it if it is missing.",
			seen:   []string{appFields + "/process"},
			pods: []refusal{
				{"relative log directory", invalid, "config.log_directory",
					func(r *request) { r.pod.LogDirectory = "var/log" }},
				{"log directory with a line break", invalid, "config.log_directory",
					func(r *request) { r.pod.LogDirectory = "/var\n" }},
				{"long log directory", invalid, "config.log_directory", func(r *request) {
					r.pod.LogDirectory = "/" + strings.Repeat("x", 4096)
				}},
			},
		},
		{
			fields: of("PodSandboxConfig", "labels", "annotations"),
			says: "They are kept as labels of the sandbox container, or in the record of a pod without " +
				"one, and come back unchanged.",
			seen: []string{"test/e2e.TestCrictlPod", "docker/translate.TestNothingLeaksIntoAPod"},
		},
		{
			fields: of("DNSConfig", "servers", "searches", "options"),
			by:     "sandbox",
			says:   "They are the lines of the pod's resolv.conf; without any of them the pod gets the node's file.",
			seen:   []string{podFields + "/names and DNS"},
			pods: []refusal{
				{"DNS server by name", invalid, "config.dns_config.servers[1]",
					dns(&runtimeapi.DNSConfig{Servers: []string{"10.0.0.10", "dns.example"}})},
				{"DNS search with a space", invalid, "config.dns_config.searches[0]",
					dns(&runtimeapi.DNSConfig{Searches: []string{"a b"}})},
				{"empty DNS search", invalid, "config.dns_config.searches[0]",
					dns(&runtimeapi.DNSConfig{Searches: []string{""}})},
				{"DNS option with a line break", invalid, "config.dns_config.options[0]",
					dns(&runtimeapi.DNSConfig{Options: []string{"ndots:5\nnameserver 6.6.6.6"}})},
			},
		},
		{
			fields: of("PortMapping", "protocol", "container_port", "host_port", "host_ip"),
			by:     "cni",
			says: "Host ports are published by a CNI plugin with the capability `portMappings`, or by the " +
				"engine with --network-plugin=bridge.",
			seen: []string{podFields + "/both IP families and host ports", "test/e2e.TestSystemBridgeNetwork"},
			pods: []refusal{
				{"unknown protocol", invalid, "config.port_mappings[0].protocol",
					ports(&runtimeapi.PortMapping{ContainerPort: 80, Protocol: 3})},
				{"negative container port", invalid, "config.port_mappings[0].container_port",
					ports(&runtimeapi.PortMapping{ContainerPort: -1})},
				{"large container port", invalid, "config.port_mappings[0].container_port",
					ports(&runtimeapi.PortMapping{ContainerPort: 65536})},
				{"host port without a container port", invalid, "config.port_mappings[0].container_port",
					ports(&runtimeapi.PortMapping{HostPort: 80})},
				{"negative host port", invalid, "config.port_mappings[0].host_port",
					ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: -1})},
				{"large host port", invalid, "config.port_mappings[0].host_port",
					ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: 65536})},
				{"host IP that is not an address", invalid, "config.port_mappings[0].host_ip",
					ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: 80, HostIp: "localhost"})},
			},
		},
		{
			fields: of("LinuxPodSandboxConfig", "cgroup_parent"),
			says: "The cgroups of the sandbox and of the containers are made below it, as a slice where the " +
				"engine's driver is systemd.",
			seen: []string{podFields + "/the pod's cgroup"},
			pods: []refusal{
				{"cgroup parent with two dots", invalid, "config.linux.cgroup_parent",
					func(r *request) { r.pod.Linux.CgroupParent = "/kubepods/../.." }},
				{"cgroup parent for the other driver", invalid, "config.linux.cgroup_parent", func(r *request) {
					r.features, r.pod.Linux.CgroupParent = confined(), "/kubepods/burstable/pod1"
				}},
				{"cgroup parent without a name", invalid, "config.linux.cgroup_parent", func(r *request) {
					r.features, r.pod.Linux.CgroupParent = confined(), "/.slice"
				}},
			},
		},
		{
			fields: of("LinuxPodSandboxConfig", "security_context"),
			says:   leads,
		},
		{
			fields: of("LinuxPodSandboxConfig", "sysctls"),
			says: "Sysctls of the pod's network and IPC namespaces are set in the sandbox, and sysctls of an " +
				"interface (net.ipv4.conf.eth0) after CNI ADD. Others, and sysctls of a namespace of the node, " +
				"are invalid.",
			seen: []string{openFields, kindsTest + "/sysctls and a host name"},
			pods: []refusal{
				{"sysctl of the node", invalid, "config.linux.sysctls", sysctl("vm.overcommit_memory", "1")},
				{"kernel sysctl that is not of the IPC namespace", invalid, "config.linux.sysctls",
					sysctl("kernel.panic", "1")},
				{"sysctl with two dots", invalid, "config.linux.sysctls", sysctl("net.../../kernel.panic", "1")},
				{"sysctl with an empty part", invalid, "config.linux.sysctls", sysctl("net..ipv4", "1")},
				{"empty sysctl", invalid, "config.linux.sysctls", sysctl("", "1")},
				{"sysctl with a line break", invalid, "config.linux.sysctls", sysctl("net.core.somaxconn", "1\n2")},
				{"network sysctl on the host's network", invalid, "config.linux.sysctls", func(r *request) {
					sysctl("net.core.somaxconn", "1")(r)
					r.podSecurity().NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
				}},
				{"shared memory sysctl with the host's IPC", invalid, "config.linux.sysctls", func(r *request) {
					sysctl("kernel.shmmax", "1")(r)
					r.podSecurity().NamespaceOptions.Ipc = runtimeapi.NamespaceMode_NODE
				}},
				{"semaphore sysctl with the host's IPC", invalid, "config.linux.sysctls", func(r *request) {
					sysctl("kernel.sem", "1 2 3 4")(r)
					r.podSecurity().NamespaceOptions.Ipc = runtimeapi.NamespaceMode_NODE
				}},
			},
		},
		{
			fields: of("LinuxPodSandboxConfig", "overhead", "resources"),
			says: "Together they limit the pod's cgroup (CPU and memory) if criadapter creates it. A kubelet " +
				"creates and limits it itself.",
			seen: []string{podFields + "/the pod's cgroup"},
		},
		{
			fields: of("NamespaceOption", "network", "pid", "ipc"),
			says: "The mode says whose namespace a container uses: the pod's, the node's, another container's or " +
				"its own. The network is always the pod's.",
			seen: []string{kindsTest + "/nothing special", kindsTest + "/own PIDs",
				kindsTest + "/the node's namespaces", kindsTest + "/own IPC"},
			pods: []refusal{
				{"network per container", invalid, "config.linux.security_context.namespace_options.network",
					podNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_CONTAINER})},
				{"unknown network mode", invalid, "config.linux.security_context.namespace_options.network",
					podNS(&runtimeapi.NamespaceOption{Network: 9})},
				{"PID namespace of a target", invalid, "config.linux.security_context.namespace_options.pid",
					podNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: "x"})},
				{"IPC namespace of a target", invalid, "config.linux.security_context.namespace_options.ipc",
					podNS(&runtimeapi.NamespaceOption{Ipc: runtimeapi.NamespaceMode_TARGET})},
			},
			containers: []refusal{
				{"the node's network in a pod that has its own", invalid,
					"config.linux.security_context.namespace_options.network",
					containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE})},
				{"network per container", invalid, "config.linux.security_context.namespace_options.network",
					containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_CONTAINER})},
				{"network of a target", invalid, "config.linux.security_context.namespace_options.network",
					containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_TARGET})},
				{"unknown PID mode", invalid, "config.linux.security_context.namespace_options.pid",
					containerNS(&runtimeapi.NamespaceOption{Pid: 9})},
				{"IPC of a target", invalid, "config.linux.security_context.namespace_options.ipc",
					containerNS(&runtimeapi.NamespaceOption{Ipc: runtimeapi.NamespaceMode_TARGET})},
			},
		},
		{
			fields: of("NamespaceOption", "target_id"),
			says: "With the PID mode TARGET a container joins that running container of its pod; with another " +
				"mode, or in a sandbox, it is invalid.",
			seen: []string{"docker/translate.TestTargetPID"},
			pods: []refusal{
				{"a target of its namespaces", invalid, "config.linux.security_context.namespace_options.target_id",
					func(r *request) {
						r.podSecurity().NamespaceOptions = &runtimeapi.NamespaceOption{TargetId: "abc"}
					}},
			},
			containers: []refusal{
				{"a target without the mode", invalid, "config.linux.security_context.namespace_options.target_id",
					containerNS(&runtimeapi.NamespaceOption{TargetId: "abc"})},
				{"no target", invalid, "config.linux.security_context.namespace_options.target_id",
					containerNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET})},
				{"target that is not an id", invalid, "config.linux.security_context.namespace_options.target_id",
					containerNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: "a:b"})},
			},
		},
		{
			fields: of("NamespaceOption", "userns_options"),
			says: "With POD the pod has a user namespace of its own, which owns its other namespaces. Root in " +
				"the pod is another user on the node.",
			refuses: "mode `POD` without `criadapter-oci`, where Status does not announce it, with " +
				"`--network-plugin=bridge`, or beside a namespace of the node: the Docker API has no user " +
				"namespace per pod",
			seen: []string{usersTest},
			uses: []use{
				{"NamespaceOption.userns_options", func(r *request) {
					r.podSecurity().NamespaceOptions = ownUsers()
				}},
				{"NamespaceOption.userns_options", func(r *request) {
					r.podSecurity().NamespaceOptions, r.security().NamespaceOptions = ownUsers(), ownUsers()
				}},
			},
			pods: []refusal{
				{"user namespace of the pod", unsupported,
					"config.linux.security_context.namespace_options.userns_options",
					podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{}})},
				{"mappings of the node's user namespace", invalid,
					"config.linux.security_context.namespace_options.userns_options",
					podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{
						Mode: runtimeapi.NamespaceMode_NODE, Uids: []*runtimeapi.IDMapping{{Length: 1}},
					}})},
			},
			containers: []refusal{
				{"user namespace of the pod", unsupported,
					"config.linux.security_context.namespace_options.userns_options",
					containerNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{}})},
			},
		},
		{
			fields: of("UserNamespace", "mode"),
			says:   "See the row of userns_options.",
			seen:   []string{usersTest},
			pods: []refusal{
				{"user namespace per container", invalid,
					"config.linux.security_context.namespace_options.userns_options.mode",
					podNS(
						&runtimeapi.NamespaceOption{
							UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_CONTAINER}})},
				{"user namespace of a target", invalid,
					"config.linux.security_context.namespace_options.userns_options.mode",
					podNS(
						&runtimeapi.NamespaceOption{
							UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_TARGET}})},
			},
		},
		{
			fields: append(of("UserNamespace", "uids", "gids"),
				of("IDMapping", "host_id", "container_id", "length")...),
			by:   "sandbox",
			says: "With the mode POD, there is one mapping of users and one of groups; both begin with 0.",
			seen: []string{usersTest},
		},
	}
}
