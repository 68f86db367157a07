//lint:file-ignore SA1019 the deprecated fields are refused as well

package fields

import (
	"errors"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// securityRows are the fields of the security contexts of pods and containers.
func securityRows() []row {
	return slices.Concat(userRows(), confinementRows())
}

// userRows are the fields for the user and groups of a process.
func userRows() []row {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []row{
		{
			fields: append(of(pod, "namespace_options", "selinux_options"),
				of(container, "namespace_options", "selinux_options", "capabilities")...),
			says: leads,
		},
		{
			fields: append(of(pod, "run_as_user", "run_as_group"), of("Int64Value", "value")...),
			says:   "The sandbox process runs as this user and group.",
			unseen: "the sandbox's program only waits: docker/translate's golden files show what the engine gets",
			pods: []refusal{
				{"negative user", invalid, "config.linux.security_context.run_as_user",
					podSC(&runtimeapi.LinuxSandboxSecurityContext{RunAsUser: number(-1)})},
				{"group without user", invalid, "config.linux.security_context.run_as_group",
					podSC(&runtimeapi.LinuxSandboxSecurityContext{RunAsGroup: number(1)})},
			},
		},
		{
			fields: of(pod, "readonly_rootfs", "supplemental_groups"),
			says:   "They apply to the sandbox process.",
			unseen: "the sandbox's program only waits: docker/translate's golden files show what the engine gets",
			pods: []refusal{
				{"large supplemental group", invalid, "config.linux.security_context.supplemental_groups[1]",
					podSC(&runtimeapi.LinuxSandboxSecurityContext{SupplementalGroups: []int64{1, 1 << 31}})},
			},
		},
		{
			fields: of(container, "run_as_user", "run_as_username", "run_as_group"),
			says:   "The process runs as this user and group, or else as the image's user.",
			seen:   []string{openFields, kindsTest + "/user and groups", appFields + "/process"},
			containers: []refusal{
				{"large user", invalid, "config.linux.security_context.run_as_user",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: number(1 << 31)})},
				{"user by number and name", invalid, "config.linux.security_context.run_as_username",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: number(1), RunAsUsername: "www"})},
				{"user name with a group", invalid, "config.linux.security_context.run_as_username",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www:root"})},
				{"user name with a line break", invalid, "config.linux.security_context.run_as_username",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www\n"})},
				{"group without user", invalid, "config.linux.security_context.run_as_group",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: number(1)})},
				{"negative group", invalid, "config.linux.security_context.run_as_group",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{RunAsUser: number(1), RunAsGroup: number(-1)})},
			},
		},
		{
			fields: of(container, "supplemental_groups"),
			says:   "The process has these groups in addition to its user's groups.",
			seen:   []string{appFields + "/process"},
			containers: []refusal{
				{"negative supplemental group", invalid, "config.linux.security_context.supplemental_groups[0]",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{-1}})},
			},
		},
		{
			fields: append(of(pod, "supplemental_groups_policy"), of(container, "supplemental_groups_policy")...),
			says: "Merge adds the groups of the image, with run_as_group only if `criadapter-oci` works. Strict " +
				"leaves them out, and Status reports whether Strict works.",
			refuses: "`Strict`, without `criadapter-oci`: the engine adds the groups of the image",
			seen: []string{noteFields + "/strict groups", noteFields + "/merged groups",
				noteFields + "/ambient capabilities"},
			uses: []use{
				{"LinuxSandboxSecurityContext.supplemental_groups_policy", func(r *request) {
					r.podSecurity().SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
				}},
				{"LinuxContainerSecurityContext.supplemental_groups_policy", func(r *request) {
					r.security().SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
				}},
			},
			pods: []refusal{
				{"strict groups", unsupported, "config.linux.security_context.supplemental_groups_policy",
					podSC(
						&runtimeapi.LinuxSandboxSecurityContext{
							SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict})},
			},
			containers: []refusal{
				{"strict groups", unsupported, "config.linux.security_context.supplemental_groups_policy",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict})},
				{"unknown groups policy", invalid, "config.linux.security_context.supplemental_groups_policy",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{SupplementalGroupsPolicy: 9})},
			},
		},
		{
			fields: of(pod, "privileged"),
			says:   "It allows privileged containers in the pod; the sandbox itself is never privileged.",
			seen:   []string{kindsTest + "/privileged", openFields},
		},
		{
			fields: of(container, "privileged"),
			says:   "The container has all capabilities and devices, nothing is masked, and no profile confines it.",
			seen:   []string{kindsTest + "/privileged", openFields},
			containers: []refusal{
				{"privileged in an ordinary pod", invalid, "config.linux.security_context.privileged",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{Privileged: true})},
			},
		},
	}
}

// confinementRows are the fields for the permissions of a process.
func confinementRows() []row {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []row{
		{
			fields: of("Capability", "add_capabilities", "drop_capabilities"),
			says:   "They change the engine's default set. Names may begin with CAP_; ALL means every capability.",
			seen:   []string{appFields + "/process", openFields, kindsTest + "/capabilities"},
			containers: []refusal{
				{"empty capability to add", invalid, "config.linux.security_context.capabilities.add_capabilities[0]",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							Capabilities: &runtimeapi.Capability{AddCapabilities: []string{""}}})},
				{"odd capability to drop", invalid, "config.linux.security_context.capabilities.drop_capabilities[1]",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							Capabilities: &runtimeapi.Capability{DropCapabilities: []string{"ALL", "a b"}}})},
			},
		},
		{
			fields: of("Capability", "add_ambient_capabilities"),
			says: "They are added to the container's capabilities, and a process of any user has them; ALL is " +
				"refused.",
			refuses: "any, without `criadapter-oci`: the Docker API has no ambient capabilities",
			seen:    []string{noteFields + "/strict groups", noteFields + "/ambient capabilities"},
			uses: []use{
				{"Capability.add_ambient_capabilities", func(r *request) {
					r.security().Capabilities = &runtimeapi.Capability{AddAmbientCapabilities: []string{"NET_RAW"}}
				}},
			},
		},
		{
			fields: of("SELinuxOption", "user", "role", "type", "level"),
			says: "They are the process's label. A container without a level has its pod's level. Without SELinux " +
				"there are no labels.",
			unseen: "no SELinux in the rig's kernel; docker/translate's golden files show what the engine gets",
			pods: []refusal{
				{"SELinux level with a space", invalid, "config.linux.security_context.selinux_options.level",
					podSC(
						&runtimeapi.LinuxSandboxSecurityContext{
							SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0 c1"}})},
			},
			containers: []refusal{
				{"SELinux user with a line break", invalid, "config.linux.security_context.selinux_options.user",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							SelinuxOptions: &runtimeapi.SELinuxOption{User: "a\nb"}})},
			},
		},
		{
			fields: of(container, "readonly_rootfs"),
			says:   "The container cannot write to its own files.",
			seen:   []string{appFields + "/process", openFields},
		},
		{
			fields: of(container, "no_new_privs"),
			says:   "The process and its children gain no privileges; without it they may, whatever daemon.json says.",
			seen:   []string{appFields + "/process", openFields},
		},
		{
			fields: of(container, "masked_paths", "readonly_paths"),
			says:   "They replace the engine's lists: an empty list means no path.",
			seen: []string{appFields + "/paths", openFields, kindsTest + "/masked paths",
				kindsTest + "/no masked paths"},
			containers: []refusal{
				{"relative masked path", invalid, "config.linux.security_context.masked_paths[0]",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{MaskedPaths: []string{"proc"}})},
				{"relative read-only path", invalid, "config.linux.security_context.readonly_paths[0]",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{ReadonlyPaths: []string{""}})},
			},
		},
		{
			fields: slices.Concat(of(pod, "seccomp", "seccomp_profile_path"),
				of(container, "seccomp", "seccomp_profile_path")),
			says: "RuntimeDefault is the engine's profile, Localhost a file of the node. Without a profile, a " +
				"container is unconfined, and a sandbox has RuntimeDefault. The newer field wins. Docker Engine " +
				"20.10 leaves out a profile's flags, defaultErrnoRet and listenerPath; `criadapter-oci` puts " +
				"back the last two.",
			refuses: "`Localhost` on an engine without seccomp, where the container would run unconfined",
			seen: []string{appFields + "/process", openFields, kindsTest + "/seccomp default",
				kindsTest + "/seccomp profile without system calls"},
			unseen: "the sandbox's program only waits: docker/translate's golden files show what the engine " +
				"gets; its tests " +
				"of profiles show that the older fields are read like the newer ones",
			uses: []use{
				{"LinuxSandboxSecurityContext.seccomp", func(r *request) { r.podSecurity().Seccomp = localhost() }},
				{"LinuxSandboxSecurityContext.seccomp_profile_path", func(r *request) {
					r.podSecurity().SeccompProfilePath = "localhost//p"
				}},
				{"LinuxContainerSecurityContext.seccomp", func(r *request) { r.security().Seccomp = localhost() }},
				{"LinuxContainerSecurityContext.seccomp_profile_path", func(r *request) {
					r.security().SeccompProfilePath = "localhost//p"
				}},
			},
			pods: []refusal{
				{"seccomp profile without a reader", unsupported, "config.linux.security_context.seccomp",
					podSC(&runtimeapi.LinuxSandboxSecurityContext{Seccomp: localhostAt("/p.json")})},
			},
			containers: []refusal{
				{"relative seccomp profile", invalid, "config.linux.security_context.seccomp",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{Seccomp: localhostAt("p.json")})},
				{"seccomp profile without a reader", unsupported, "config.linux.security_context.seccomp",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{Seccomp: localhostAt("/p.json")})},
				{"seccomp profile without seccomp", unsupported, "config.linux.security_context.seccomp",
					func(r *request) {
						r.features.Seccomp, r.security().Seccomp = false, localhostAt("/p.json")
					}},
				{"seccomp profile that cannot be read", invalid, "config.linux.security_context.seccomp",
					seccompContent("", errors.New("no such file"))},
				{"seccomp profile that is no JSON", invalid, "config.linux.security_context.seccomp",
					seccompContent("{", nil)},
				{"empty seccomp profile", invalid, "config.linux.security_context.seccomp", seccompContent("", nil)},
				{"seccomp profile that says nothing", invalid, "config.linux.security_context.seccomp",
					seccompContent("{}", nil)},
				{"seccomp profile without default action", invalid, "config.linux.security_context.seccomp",
					seccompContent(`{"syscalls":[]}`, nil)},
				{"odd value in the older seccomp field", invalid, "config.linux.security_context.seccomp_profile_path",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "/p.json"})},
			},
		},
		{
			fields: append(of(pod, "apparmor"), of(container, "apparmor", "apparmor_profile")...),
			says:   "RuntimeDefault is the engine's profile, Localhost a loaded profile. The newer field wins.",
			refuses: "`Localhost` on an engine without AppArmor, where the container would run unconfined; a " +
				"profile that is " +
				"not loaded",
			unseen: "no AppArmor in the rig's kernel: `make vm SET=critest` tries it; docker/translate's tests " +
				"of profiles " +
				"show that the older field is read like the newer one",
			uses: []use{
				{"LinuxSandboxSecurityContext.apparmor", func(r *request) { r.podSecurity().Apparmor = localhost() }},
				{"LinuxContainerSecurityContext.apparmor", func(r *request) { r.security().Apparmor = localhost() }},
				{"LinuxContainerSecurityContext.apparmor_profile", func(r *request) {
					r.security().ApparmorProfile = "localhost/p"
				}},
			},
			pods: []refusal{
				{"AppArmor profile without AppArmor", unsupported, "config.linux.security_context.apparmor",
					podSC(&runtimeapi.LinuxSandboxSecurityContext{Apparmor: localhostAt("p")})},
			},
			containers: []refusal{
				{"AppArmor profile without AppArmor", unsupported, "config.linux.security_context.apparmor",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{Apparmor: localhostAt("p"),
							ApparmorProfile: "unconfined"})},
				{"AppArmor profile with a line break", invalid, "config.linux.security_context.apparmor",
					func(r *request) {
						r.features, r.security().Apparmor = confined(), localhostAt("a\nb")
					}},
				{"AppArmor profile that is not loaded", invalid, "config.linux.security_context.apparmor",
					func(r *request) {
						r.features, r.security().Apparmor = confined(), localhostAt("p")
						r.read = func(string) ([]byte, error) { return []byte("pp (enforce)\n"), nil }
					}},
				{"older AppArmor field without AppArmor", unsupported, "config.linux.security_context.apparmor_profile",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{ApparmorProfile: "localhost/p"})},
				{"odd value in the older AppArmor field", invalid, "config.linux.security_context.apparmor_profile",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{ApparmorProfile: "localhost/"})},
			},
		},
		{
			fields: of("SecurityProfile", "profile_type", "localhost_ref"),
			says:   "See the rows of seccomp and apparmor.",
			unseen: "the fields that lead to them are seen",
			containers: []refusal{
				{"unknown AppArmor profile type", invalid, "config.linux.security_context.apparmor.profile_type",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							Apparmor: &runtimeapi.SecurityProfile{ProfileType: 9}})},
				{"AppArmor profile without a name", invalid, "config.linux.security_context.apparmor.localhost_ref",
					containerSC(&runtimeapi.LinuxContainerSecurityContext{Apparmor: localhostAt("")})},
				{"AppArmor profile name without the type Localhost", invalid,
					"config.linux.security_context.apparmor.localhost_ref",
					containerSC(
						&runtimeapi.LinuxContainerSecurityContext{
							Apparmor: &runtimeapi.SecurityProfile{LocalhostRef: "p"}})},
			},
		},
	}
}
