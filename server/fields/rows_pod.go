package fields

// podRows are the fields of a pod's configuration.
func podRows() []row {
	return []row{
		{
			fields: of("PodSandboxMetadata", "name", "uid", "namespace", "attempt"), is: implemented,
			says: "They name the sandbox container, as dockershim did, where there is one, and a second pod of the same metadata is refused.",
		},
		{
			fields: of("PodSandboxConfig", "metadata", "linux", "dns_config", "port_mappings"), is: implemented,
			says: "Their fields have rows of their own.",
		},
		{
			fields: of("PodSandboxConfig", "hostname"), is: implemented,
			says: "It is the host name of the pod's containers; on the host's network they have the node's.",
		},
		{
			fields: of("PodSandboxConfig", "log_directory"), is: implemented,
			says: "Container logs are written below it; it is made where it is missing.",
		},
		{
			fields: of("PodSandboxConfig", "labels", "annotations"), is: implemented,
			says: "They are kept as labels of the sandbox container, or in the record of a pod without, and come back unchanged.",
		},
		{
			fields: of("DNSConfig", "servers", "searches", "options"), is: implemented,
			says: "They are the lines of the pod's resolv.conf; without any of them the pod gets the node's file.",
		},
		{
			fields: of("PortMapping", "protocol", "container_port", "host_port", "host_ip"), is: implemented,
			says: "Host ports are published by a CNI plugin with the capability `portMappings`, or by the engine with --network-plugin=bridge.",
		},
		{
			fields: of("LinuxPodSandboxConfig", "cgroup_parent"), is: implemented,
			says: "The cgroups of the sandbox and of the containers are made below it, as a slice where the engine's driver is systemd.",
		},
		{
			fields: of("LinuxPodSandboxConfig", "security_context"), is: implemented,
			says: "Its fields have rows of their own.",
		},
		{
			fields: of("LinuxPodSandboxConfig", "sysctls"), is: implemented,
			says: "Sysctls of the pod's network and IPC namespaces are set in the sandbox, and sysctls of an interface (net.ipv4.conf.eth0) after CNI ADD. Others, and sysctls of a namespace of the node, are invalid.",
		},
		{
			fields: of("LinuxPodSandboxConfig", "overhead", "resources"), is: implemented,
			says: "Together they limit the pod's cgroup (CPU and memory) if criadapter creates it. A kubelet " +
				"creates and limits it itself.",
		},
		{
			fields: of("NamespaceOption", "network", "pid", "ipc"), is: implemented,
			says: "The sandbox gets or leaves out the namespace, and containers join it, the node's, another container's or their own; a container's network is its pod's.",
		},
		{
			fields: of("NamespaceOption", "target_id"), is: implemented,
			says: "With the PID mode TARGET a container joins that running container of its pod; with another mode, or in a sandbox, it is invalid.",
		},
		{
			fields: of("NamespaceOption", "userns_options"), is: implemented,
			says:    "With POD the pod has a user namespace of its own, which its other namespaces belong to: its root is another user on the node.",
			refuses: "mode `POD`, without that runtime, where Status does not announce it, with `--network-plugin=bridge`, or beside a namespace of the node: the Docker API has no user namespace per pod",
			needs:   needsUsers, has: hasUsers,
		},
		{
			fields: of("UserNamespace", "mode"), is: implemented,
			says: "It is what the row of userns_options is about.",
		},
		{
			fields: append(of("UserNamespace", "uids", "gids"), of("IDMapping", "host_id", "container_id", "length")...), is: implemented,
			says: "The one mapping of users and the one of groups, which begin with 0; they go with the mode POD.",
		},
	}
}
