package fields

import (
	"slices"

	"github.com/criadapter/criadapter/docker"
)

// verdict is what becomes of a field.
type verdict string

const (
	implemented   verdict = "implemented"
	refused       verdict = "refused"
	notApplicable verdict = "not applicable"
)

// row says what becomes of fields that have it in common.
type row struct {
	// fields are named Message.field.
	fields []string
	is     verdict
	// says is one sentence: what the field does here, or why it does nothing.
	says string
	// refuses says which use of a field that is implemented is refused nevertheless, and why. Empty for none.
	refuses string
	// needs is the engine or runtime that does it, or that accepts what is refused; empty for any, or for none if the
	// field is refused.
	needs string
	// has reports whether an engine is one that row.needs names. It is there when row.needs is.
	has func(docker.Features) bool
}

// table returns the rows, in the order of docs/fields.md.
func table() []row {
	return slices.Concat(podRows(), containerRows(), mountRows(), securityRows(), resourceRows(), imageRows(),
		requestRows(), checkpointRows(), windowsRows())
}

// of names fields of one message.
func of(message string, fields ...string) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = message + "." + field
	}
	return names
}

// What some rows need.
const (
	needsSeccomp  = "an engine with seccomp"
	needsAppArmor = "an engine on a node with AppArmor"
	needsSELinux  = "an engine with `selinux-enabled`"
	needsCDI      = "an engine with CDI: Docker Engine 28.2, or 25 (API 1.44) with `features.cdi` of daemon.json; or the runtime `criadapter-oci`"
	needsRRO      = "API 1.44 (Docker Engine 25) or the runtime `criadapter-oci`, on Linux 5.12 with a runtime that has the mount option `rro` (runc 1.1)"
	needsOCI      = "the runtime `criadapter-oci` ([docs/oci-runtime.md](oci-runtime.md))"
	needsCgroup2  = "a node with cgroup v2"
	needsUsers    = "the runtime `criadapter-oci`, on Linux 6.3 with the kernel's overlay as storage driver ([docs/oci-runtime.md](oci-runtime.md))"
	needsCRIU     = "an engine with `experimental`, CRIU beside it, and a kernel with checkpoints"
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
