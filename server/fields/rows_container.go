package fields

// containerRows are the fields of a container's configuration, without mounts, security and limits.
func containerRows() []row {
	return []row{
		{
			fields: of("ContainerMetadata", "name", "attempt"), is: implemented,
			says: "They name the container, as dockershim did; a second one of the same pod is refused.",
		},
		{
			fields: of("ContainerConfig", "metadata", "image", "mounts", "devices", "linux", "CDI_devices"), is: implemented,
			says: "Their fields have rows of their own.",
		},
		{
			fields: of("ContainerConfig", "command", "args"), is: implemented,
			says: "A command replaces the image's entrypoint and arguments; arguments alone replace its arguments.",
		},
		{
			fields: of("ContainerConfig", "working_dir"), is: implemented,
			says: "The process begins there, or where the image says.",
		},
		{
			fields: append(of("ContainerConfig", "envs"), of("KeyValue", "key", "value")...), is: implemented,
			says: "They are added to the image's environment and win over it.",
		},
		{
			fields: of("ContainerConfig", "labels"), is: implemented,
			says: "They are kept as labels of the engine's container and come back unchanged.",
		},
		{
			fields: of("ContainerConfig", "annotations"), is: implemented,
			says: "They come back unchanged. Keys that begin with `cdi.k8s.io/` name CDI devices, beside " +
				"CDI_devices. The OCI runtime gets the keys that --runtime-annotations names, and the pod's.",
			refuses: "`cdi.k8s.io/…` where neither the engine nor `criadapter-oci` injects CDI devices, and the container would lack them",
			needs:   needsCDI, has: hasCDI,
		},
		{
			fields: of("ContainerConfig", "log_path"), is: implemented,
			says: "The output is written there below the pod's log_directory, in the CRI format.",
		},
		{
			fields: of("ContainerConfig", "stdin", "stdin_once", "tty"), is: implemented,
			says: "The process has an open input, which ends with the first client that attached, and a terminal.",
		},
		{
			fields: of("ContainerConfig", "stop_signal"), is: implemented,
			says: "A stop sends it in place of the image's signal.",
		},
		{
			fields: of("Device", "container_path", "host_path", "permissions"), is: implemented,
			says: "The device, or each one below a directory, is made in the container, and its cgroup allows what permissions name.",
		},
		{
			fields: of("CDIDevice", "name"), is: implemented,
			says:    "The engine applies the device's specification where it can; otherwise criadapter does, by what it finds in /etc/cdi and /var/run/cdi.",
			refuses: "any, where neither does: the engine would not start the container, or ignore the device",
			needs:   needsCDI, has: hasCDI,
		},
	}
}

// mountRows are the fields of mounts.
func mountRows() []row {
	return []row{
		{
			fields: of("Mount", "container_path", "host_path"), is: implemented,
			says: "A path of the host is mounted with all that is mounted below it; a missing one is made as a directory.",
		},
		{
			fields: of("Mount", "readonly"), is: implemented,
			says: "The mount is read-only, what is mounted below it is not.",
		},
		{
			fields: of("Mount", "recursive_read_only"), is: implemented,
			says:    "What is mounted below is read-only, too; Status announces it where it works.",
			refuses: "any, on an engine that makes only the topmost mount read-only",
			needs:   needsRRO, has: hasRRO,
		},
		{
			fields: of("Mount", "propagation"), is: implemented,
			says: "PRIVATE, HOST_TO_CONTAINER and BIDIRECTIONAL are rprivate, rslave and rshared.",
		},
		{
			fields: of("Mount", "selinux_relabel"), is: implemented,
			says:    "The files get the pod's label, where the container has SELinux options; without SELinux there are no labels.",
			refuses: "a path with a colon, and without `criadapter-oci` together with `recursive_read_only`: the Docker API relabels only what is given as `source:target`",
		},
		{
			fields: of("Mount", "image", "image_sub_path"), is: implemented,
			says: "An image, or a part of it, is mounted read-only; engines before 28 (API 1.48) mount its extracted files.",
		},
		{
			fields: of("Mount", "uidMappings", "gidMappings"), is: implemented,
			says:    "The files have the owners inside of the pod's user namespace that they have on the node outside of it (idmapped mounts).",
			refuses: "mappings that differ from the pod's user namespace, which maps the files",
		},
		{
			fields: of("Mount", "mount_options"), is: implemented,
			says:    "nodev, noexec, nosuid, noatime, nodiratime, relatime and strictatime hold for the topmost mount, others are refused; Status announces them.",
			refuses: "any, without that runtime: the Docker API has no options of bind mounts",
			needs:   needsOCI, has: hasOCI,
		},
	}
}
