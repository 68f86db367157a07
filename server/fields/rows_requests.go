package fields

import "slices"

// requestRows are the fields of the requests themselves, and of their filters.
func requestRows() []row {
	return slices.Concat(podRequestRows(), containerRequestRows(), []row{
		{
			fields: of("VersionRequest", "version"), is: notApplicable,
			says: "Clients give their own version; the answer is the same for all.",
		},
		{
			fields: of("StatusRequest", "verbose"), is: implemented,
			says: "It adds the configuration in force and what this engine can do.",
		},
		{
			fields: slices.Concat(of("UpdateRuntimeConfigRequest", "runtime_config"), of("RuntimeConfig", "network_config"), of("NetworkConfig", "pod_cidr")),
			is:     implemented,
			says:   "The CIDR is checked and shown by a verbose Status; addresses come from the CNI configuration.",
		},
	})
}

func podRequestRows() []row {
	return []row{
		{
			fields: of("RunPodSandboxRequest", "config"), is: implemented,
			says: "Its fields have rows of their own.",
		},
		{
			fields: of("RunPodSandboxRequest", "runtime_handler"), is: implemented,
			says:    "It is the name of one of the engine's runtimes; an unknown one is invalid.",
			refuses: "a runtime that takes its interfaces when it boots, in a pod of a CNI network: the Docker API cannot start it in one made ready before",
		},
		{
			fields: slices.Concat(of("StopPodSandboxRequest", "pod_sandbox_id"), of("RemovePodSandboxRequest", "pod_sandbox_id"),
				of("PodSandboxStatusRequest", "pod_sandbox_id"), of("PodSandboxStatsRequest", "pod_sandbox_id")),
			is: implemented, says: "It is the sandbox's id or its beginning.",
		},
		{
			fields: of("PodSandboxStatusRequest", "verbose"), is: implemented,
			says: "It adds the process, the configuration and the limits now in force.",
		},
		{
			fields: of("UpdatePodSandboxResourcesRequest", "pod_sandbox_id", "overhead", "resources"), is: implemented,
			says: "They are kept and shown by a verbose PodSandboxStatus, and limit a pod's cgroup that was made with the pod; a kubelet writes its own.",
		},
		{
			fields: of("PortForwardRequest", "pod_sandbox_id", "port"), is: implemented,
			says: "The stream leads to ports of the pod's network namespace.",
		},
		{
			fields: slices.Concat(of("ListPodSandboxRequest", "filter"), of("StreamPodSandboxesRequest", "filter"),
				of("ListPodSandboxStatsRequest", "filter"), of("StreamPodSandboxStatsRequest", "filter"),
				of("PodSandboxFilter", "id", "state", "label_selector"), of("PodSandboxStateValue", "state"),
				of("PodSandboxStatsFilter", "id", "label_selector")),
			is: implemented, says: "All parts of a filter must hold; an id may be the beginning of one.",
		},
	}
}

func containerRequestRows() []row {
	return []row{
		{
			fields: of("CreateContainerRequest", "pod_sandbox_id", "config"), is: implemented,
			says: "The container is made in that pod; the fields of config have rows of their own.",
		},
		{
			fields: of("CreateContainerRequest", "sandbox_config"), is: implemented,
			says: "It says whether the pod may have privileged containers. It replaces the configuration of a pod " +
				"that is known by its labels alone. Otherwise the configuration of RunPodSandbox counts. A " +
				"configuration of another pod is invalid.",
		},
		{
			fields: slices.Concat(of("StartContainerRequest", "container_id"), of("RemoveContainerRequest", "container_id"),
				of("StopContainerRequest", "container_id"), of("ContainerStatusRequest", "container_id"),
				of("ContainerStatsRequest", "container_id"), of("ReopenContainerLogRequest", "container_id"),
				of("UpdateContainerResourcesRequest", "container_id")),
			is: implemented, says: "It is the container's id or its beginning.",
		},
		{
			fields: of("StopContainerRequest", "timeout"), is: implemented,
			says: "After these seconds the container is killed.",
		},
		{
			fields: of("ContainerStatusRequest", "verbose"), is: implemented,
			says: "It adds the process, the configuration and what is known of the runtime's specification.",
		},
		{
			fields: of("UpdateContainerResourcesRequest", "linux"), is: implemented,
			says: "What is set there replaces what is in force, all or nothing.",
		},
		{
			fields: of("UpdateContainerResourcesRequest", "annotations"), is: refused,
			says: "The engine has no limits that are said by annotations.",
		},
		{
			fields: of("ExecSyncRequest", "container_id", "cmd", "timeout"), is: implemented,
			says: "The command runs in the container, and is killed with its children after these seconds.",
		},
		{
			fields: append(of("ExecRequest", "container_id", "cmd", "tty", "stdin", "stdout", "stderr"),
				of("AttachRequest", "container_id", "tty", "stdin", "stdout", "stderr")...),
			is: implemented, says: "The answer is a URL at which these streams of the command, or of the container, are.",
		},
		{
			fields: slices.Concat(of("ListContainersRequest", "filter"), of("StreamContainersRequest", "filter"),
				of("ListContainerStatsRequest", "filter"), of("StreamContainerStatsRequest", "filter"),
				of("ContainerFilter", "id", "state", "pod_sandbox_id", "label_selector"), of("ContainerStateValue", "state"),
				of("ContainerStatsFilter", "id", "pod_sandbox_id", "label_selector")),
			is: implemented, says: "All parts of a filter must hold; an id may be the beginning of one.",
		},
	}
}

// checkpointRows are the fields of checkpoints.
func checkpointRows() []row {
	return []row{
		{
			fields: of("CheckpointContainerRequest", "container_id", "location", "timeout"), is: implemented,
			says:  "The container's processes, its changed files and its descriptions are written to a tar archive; it runs on. Without what it needs the call fails and says what is missing.",
			needs: needsCRIU, has: hasCRIU,
		},
		{
			fields: of("CheckpointPodRequest", "pod_sandbox_id", "output_path", "container_ids"), is: implemented,
			says:  "All containers are paused, written to the directory and resumed. Without what it needs the call fails and says what is missing.",
			needs: needsCRIU, has: hasCRIU,
		},
		{
			fields: of("RestorePodRequest", "checkpoint_path", "config", "runtime_handler", "container_configs"), is: implemented,
			says:  "A pod is made with containers that begin, when they are started, where the checkpoint ended. Without what it needs the call fails and says what is missing.",
			needs: needsCRIU, has: hasCRIU,
		},
		{
			fields: append(of("CheckpointPodRequest", "options"), of("RestorePodRequest", "options")...), is: refused,
			says: "There are no options.",
		},
	}
}

// windowsRows are what only Windows has.
func windowsRows() []row {
	return []row{{
		fields: slices.Concat(of("PodSandboxConfig", "windows"), of("ContainerConfig", "windows"), of("UpdateContainerResourcesRequest", "windows"),
			of("WindowsPodSandboxConfig", "security_context"),
			of("WindowsSandboxSecurityContext", "run_as_username", "credential_spec", "host_process", "namespace_options"),
			of("WindowsNamespaceOption", "network"), of("WindowsContainerConfig", "resources", "security_context"),
			of("WindowsContainerResources", "cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes", "affinity_cpus"),
			of("WindowsCpuGroupAffinity", "cpu_mask", "cpu_group"),
			of("WindowsContainerSecurityContext", "run_as_username", "credential_spec", "host_process")),
		is: refused, says: "The pods are of Linux.",
	}}
}
