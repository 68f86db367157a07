package fields

import "slices"

// rule describes fields that do nothing on any engine.
type rule struct {
	// fields are named Message.field.
	fields []string
	// ignored fields have no meaning here. All other fields are refused.
	ignored bool
	// why is one sentence with the reason. The client gets it with a refusal.
	why string
}

// rules returns the fields that do nothing, in the order of docs/fields.md.
func rules() []rule {
	return []rule{
		{
			fields: of("ImageSpec", "annotations"), ignored: true,
			why: "Other runtimes choose an architecture by them; the engine pulls images for its own architecture. " +
				"A kubelet sends the pod's annotations with each pull. A container's image annotations come back " +
				"unchanged.",
		},
		{
			fields: of("PullImageRequest", "sandbox_config"), ignored: true,
			why: "The log names the pod that the pull is for. Credentials are in auth.",
		},
		{
			fields: of("VersionRequest", "version"), ignored: true,
			why: "Clients give their own version; the answer is the same for all.",
		},
		{
			fields: of("UpdateContainerResourcesRequest", "annotations"),
			why:    "The engine has no limits that annotations can set.",
		},
		{
			fields: slices.Concat(of("CheckpointPodRequest", "options"), of("RestorePodRequest", "options")),
			why:    "There are no options.",
		},
		{fields: windowsFields(), why: "All pods run on Linux."},
	}
}

// windowsFields returns the fields that only Windows pods and containers have.
func windowsFields() []string {
	return slices.Concat(
		of("PodSandboxConfig", "windows"),
		of("ContainerConfig", "windows"),
		of("UpdateContainerResourcesRequest", "windows"),
		of("WindowsPodSandboxConfig", "security_context"),
		of("WindowsSandboxSecurityContext", "run_as_username", "credential_spec", "host_process", "namespace_options"),
		of("WindowsNamespaceOption", "network"),
		of("WindowsContainerConfig", "resources", "security_context"),
		of("WindowsContainerResources", "cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes",
			"rootfs_size_in_bytes", "affinity_cpus"),
		of("WindowsCpuGroupAffinity", "cpu_mask", "cpu_group"),
		of("WindowsContainerSecurityContext", "run_as_username", "credential_spec", "host_process"))
}
