package fields

import (
	"slices"

	"github.com/criadapter/criadapter/docker"
)

// Ability says whether an engine supports some fields.
type Ability struct {
	// Fields are named Message.field.
	Fields []string `json:"fields"`
	// Available reports whether the engine supports them.
	Available bool `json:"available"`
	// Needs is the engine or runtime that supports them.
	Needs string `json:"needs"`
}

// Abilities returns the fields that depend on the engine, in the order of the table.
func Abilities(engine docker.Features) []Ability {
	var all []Ability
	for _, a := range abilities() {
		all = append(all, Ability{Fields: a.fields, Available: a.has(engine), Needs: a.needs})
	}
	return all
}

// ability describes fields that work on some engines only.
type ability struct {
	// fields are named Message.field.
	fields []string
	// needs is the engine or runtime that supports the fields.
	needs string
	// has reports whether an engine meets needs.
	has func(docker.Features) bool
}

// abilities returns the fields that depend on the engine, in the order of docs/fields.md.
func abilities() []ability {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []ability{
		{of("NamespaceOption", "userns_options"), needsUsers, hasUsers},
		{of("ContainerConfig", "annotations"), needsCDI, hasCDI},
		{of("CDIDevice", "name"), needsCDI, hasCDI},
		{of("Mount", "recursive_read_only"), needsRRO, hasRRO},
		{of("Mount", "mount_options"), needsOCI, hasOCI},
		{slices.Concat(of(pod, "supplemental_groups_policy"), of(container, "supplemental_groups_policy")),
			needsOCI, hasOCI},
		{of("Capability", "add_ambient_capabilities"), needsOCI, hasOCI},
		{of("SELinuxOption", "user", "role", "type", "level"), needsSELinux, hasSELinux},
		{slices.Concat(of(pod, "seccomp", "seccomp_profile_path"), of(container, "seccomp", "seccomp_profile_path")),
			needsSeccomp, hasSeccomp},
		{slices.Concat(of(pod, "apparmor"), of(container, "apparmor", "apparmor_profile")),
			needsAppArmor, hasAppArmor},
		{of("LinuxContainerResources", "unified"), needsCgroup2, hasCgroup2},
		{of("CheckpointContainerRequest", "container_id", "location", "timeout"), needsCRIU, hasCRIU},
		{of("CheckpointPodRequest", "pod_sandbox_id", "output_path", "container_ids"), needsCRIU, hasCRIU},
		{of("RestorePodRequest", "checkpoint_path", "config", "runtime_handler", "container_configs"),
			needsCRIU, hasCRIU},
	}
}

// of returns the names of fields of one message.
func of(message string, fields ...string) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = message + "." + field
	}
	return names
}

// Requirements of fields, as ability.needs.
const (
	needsSeccomp  = "an engine with seccomp"
	needsAppArmor = "an engine on a node with AppArmor"
	needsSELinux  = "an engine with `selinux-enabled`"
	needsCDI      = "an engine with CDI: Docker Engine 28.2, or 25 (API 1.44) with `features.cdi` of " +
		"daemon.json; or the " +
		"runtime `criadapter-oci`"
	needsRRO = "API 1.44 (Docker Engine 25) or the runtime `criadapter-oci`, on Linux 5.12 with a runtime that " +
		"has the " +
		"mount option `rro` (runc 1.1)"
	needsOCI     = "the runtime `criadapter-oci` ([docs/oci-runtime.md](oci-runtime.md))"
	needsCgroup2 = "a node with cgroup v2"
	needsUsers   = "the runtime `criadapter-oci`, on Linux 6.3 with the kernel's overlay as storage driver " +
		"([docs/oci-runtime.md](oci-runtime.md))"
	needsCRIU = "an engine with `experimental`, CRIU beside it, and a kernel with checkpoints"
)

func hasSeccomp(f docker.Features) bool  { return f.Seccomp }
func hasAppArmor(f docker.Features) bool { return f.AppArmor }
func hasSELinux(f docker.Features) bool  { return f.SELinux }
func hasCDI(f docker.Features) bool      { return f.CDI || hasOCI(f) }
func hasCgroup2(f docker.Features) bool  { return f.CgroupVersion >= 2 }
func hasOCI(f docker.Features) bool      { return f.OCIRuntime.Works() }
func hasUsers(f docker.Features) bool    { return f.OCIRuntime.UserNamespaces }
func hasRRO(f docker.Features) bool {
	return len(f.RecursiveReadOnly) > 0 || f.OCIRuntime.RecursiveReadOnly
}
func hasCRIU(f docker.Features) bool { return f.NoCheckpoint == "" }
