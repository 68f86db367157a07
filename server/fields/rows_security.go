package fields

import "slices"

// securityRows are the fields of the security contexts of pods and containers.
func securityRows() []row {
	return slices.Concat(userRows(), confinementRows())
}

// userRows are about who a process runs as.
func userRows() []row {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []row{
		{
			fields: append(of(pod, "namespace_options", "selinux_options"), of(container, "namespace_options", "selinux_options", "capabilities")...),
			is:     implemented, says: "Their fields have rows of their own.",
		},
		{
			fields: append(of(pod, "run_as_user", "run_as_group"), of("Int64Value", "value")...), is: implemented,
			says: "The sandbox process runs as them.",
		},
		{
			fields: of(pod, "readonly_rootfs", "supplemental_groups"), is: implemented,
			says: "They hold for the sandbox process.",
		},
		{
			fields: of(container, "run_as_user", "run_as_username", "run_as_group"), is: implemented,
			says: "The process runs as them; without them as the image's user.",
		},
		{
			fields: of(container, "supplemental_groups"), is: implemented,
			says: "The process has these groups in addition to its user's groups.",
		},
		{
			fields: append(of(pod, "supplemental_groups_policy"), of(container, "supplemental_groups_policy")...), is: implemented,
			says:    "Merge is how the engine does it; Strict leaves out the groups of the image, and Status announces it.",
			refuses: "`Strict`, without that runtime: the engine adds the groups of the image",
			needs:   needsOCI, has: hasOCI,
		},
		{
			fields: of(pod, "privileged"), is: implemented,
			says: "It allows privileged containers in the pod; the sandbox itself is never privileged.",
		},
		{
			fields: of(container, "privileged"), is: implemented,
			says: "The container has all capabilities and devices, nothing is masked, and no profile confines it.",
		},
	}
}

// confinementRows are about what a process may do.
func confinementRows() []row {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []row{
		{
			fields: of("Capability", "add_capabilities", "drop_capabilities"), is: implemented,
			says: "They change the engine's default set, with or without CAP_; ALL is all.",
		},
		{
			fields: of("Capability", "add_ambient_capabilities"), is: implemented,
			says:    "They are added, and a process that is not root has them, too; ALL is refused.",
			refuses: "any, without that runtime: the Docker API has no ambient capabilities",
			needs:   needsOCI, has: hasOCI,
		},
		{
			fields: of("SELinuxOption", "user", "role", "type", "level"), is: implemented,
			says:  "They are the process's label; without SELinux there are no labels.",
			needs: needsSELinux, has: hasSELinux,
		},
		{
			fields: of(container, "readonly_rootfs"), is: implemented,
			says: "The container cannot write to its own files.",
		},
		{
			fields: of(container, "no_new_privs"), is: implemented,
			says: "The process and its children gain no privileges; without it they may, whatever daemon.json says.",
		},
		{
			fields: of(container, "masked_paths", "readonly_paths"), is: implemented,
			says: "The lists are complete: an empty one means none.",
		},
		{
			fields: slices.Concat(of(pod, "seccomp", "seccomp_profile_path"), of(container, "seccomp", "seccomp_profile_path")), is: implemented,
			says:    "RuntimeDefault is the engine's profile, Localhost a file of the node; a container without any is unconfined, a sandbox has the default. The newer field wins. Docker Engine 20.10 leaves out a profile's flags, defaultErrnoRet and listenerPath; `criadapter-oci` puts back the last two.",
			refuses: "`Localhost` on an engine without seccomp, where the container would run unconfined",
			needs:   needsSeccomp, has: hasSeccomp,
		},
		{
			fields: append(of(pod, "apparmor"), of(container, "apparmor", "apparmor_profile")...), is: implemented,
			says:    "RuntimeDefault is the engine's profile, Localhost one that is loaded. The newer field wins.",
			refuses: "`Localhost` on an engine without AppArmor, where the container would run unconfined",
			needs:   needsAppArmor, has: hasAppArmor,
		},
		{
			fields: of("SecurityProfile", "profile_type", "localhost_ref"), is: implemented,
			says: "The rows of seccomp and apparmor say what they do.",
		},
	}
}
